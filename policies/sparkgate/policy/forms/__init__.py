"""Forms of a text: views with a way back, encodings, joints, lookalikes."""
