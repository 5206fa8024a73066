"""Reading a web page: bytes in, text out, in a process that is limited, reaches nothing and reads one page only.

`reader.Reader` is the gate's side and `worker` the process. `document` makes the text of a page, `choose` what is shown
of it, and only that leaves the process, as `shown` says.
"""
