"""Places that are hidden from a confined command, and places it may never write, whoever asks for it."""

from __future__ import annotations

SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".password-store", ".vault-token", ".netrc"),
    *(".git-credentials", ".pypirc", ".npmrc", ".pgpass", ".my.cnf", ".terraform.d", ".mozilla", ".thunderbird"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".node_repl_history"),
    *(".cargo/credentials.toml", ".huggingface/token", ".cache/huggingface/token", ".local/share/keyrings"),
    *(".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".config/rclone", ".config/doctl", ".config/sops"),
    *(".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
)
"""Below the home folder. An agent needs none of them: it has no network to use them on."""
SECRETS_OF_ROOT = ("/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/ssh")
"""Hidden where the user could read them, which is root."""
STARTED = (
    *(".config/autostart", ".config/systemd", ".config/environment.d", ".local/bin", "bin"),
    *(".local/share/applications", ".local/share/systemd", ".local/lib"),
)
"""Below the home folder, what other programs start: written from inside, it would run outside."""
OF_THE_MACHINE = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/var/lib", "/var/run", "/var/spool"),
)
"""Written from inside, they would change what runs outside; shown as they are, they would undo the view."""
