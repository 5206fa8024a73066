"""Reading a web page: bytes in, text out, in a process that is limited, reaches nothing and reads one page only.

`reader.Reader` is the gate's side, `worker` the process, `page` what passes between them, `part` what is shown of it.
"""
