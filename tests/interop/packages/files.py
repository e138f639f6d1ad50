"""The application that hypercorn serves: the files of WWW."""

import os
from pathlib import Path

CHUNK = 64 << 10


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    # The whole request first: hypercorn 0.18 ends all of HTTP/3 if the end of a request comes after its response has
    # left.
    while (await receive()).get("more_body"):
        pass
    name = scope["path"].lstrip("/")
    file = Path(os.environ["WWW"]) / name
    found = name and "/" not in name and not name.startswith(".") and file.is_file()
    body = file.read_bytes() if found else b"no such file\n"
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/octet-stream")]
    await send({"type": "http.response.start", "status": 200 if found else 404, "headers": headers})
    for at in range(0, len(body), CHUNK):
        await send({"type": "http.response.body", "body": body[at : at + CHUNK], "more_body": at + CHUNK < len(body)})
