"""Code: by its shape, and by fingerprints of folders that are not released."""
