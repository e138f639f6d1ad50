"""Servers of other stacks, whose client is `thalweg get`, and the names of those that the lab has, too."""

import os
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
sys.path.append(str(ROOT / "tests/interop"))
from runner import debian, materials, peers  # noqa: E402

# The stack of the lab that is this server as it comes with a client of ours, or none. Its quiche has the windows of a
# comparison.
IN_LAB = {"quinn": "quinn-shipped-to-thalweg", "noq": "noq-shipped-to-thalweg", "quiche": "quiche-to-thalweg",
          "quic-go": None, "aioquic": None, "nginx": None}
BUILT = {}  # what could be built, and why others could not
BUILDING = threading.Lock()  # rows are measured side by side


def lab_program():
    """The `thalweg` program with other stacks in its lab."""
    with BUILDING:
        if "lab" not in BUILT:
            BUILT["lab"] = peers.cargo_program(ROOT / "peers", "thalweg-peers", "--features", "thalweg-peers/quiche")
    return BUILT["lab"]


def build(name):
    """The words that run a server; `Missing` where there is none."""
    with BUILDING:
        if name not in BUILT:
            try:
                BUILT[name] = built(name)
            except peers.Missing as missing:
                BUILT[name] = missing
    if isinstance(BUILT[name], peers.Missing):
        raise BUILT[name]
    return BUILT[name]


def built(name):
    materials.certificates()
    if name == "nginx":
        return debian.program("nginx", "-V", "http_v3_module")
    if name == "noq":
        return [peers.cargo_program(ROOT / "peers", "noq-peer")]
    peer = peers.ALL[name]
    peer.build()
    return peer.command


def command(name, address, site, scratch):
    """What runs at the server's end, in an environment of its own."""
    certs = peers.WORK / "certs"
    if name == "nginx":
        return [*build(name), "-e", "stderr", "-p", scratch, "-c", nginx_config(address, site, scratch, certs)]
    contract = {"TESTCASE": "http3", "LISTEN": address, "WWW": site, "CERT": certs / "cert.pem",
                "KEY": certs / "key.pem"}
    return ["env", *(f"{name}={value}" for name, value in contract.items()), *build(name), "server"]


def nginx_config(address, site, scratch, certs):
    """Its defaults, but for what it needs here."""
    file = scratch / "nginx.conf"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = " ".join(f"{kind}_temp_path {scratch / kind};" for kind in kinds)
    file.write_text(f"""{"user root;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes 1;
pid {scratch / 'pid'};
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  {paths}
  server {{
    listen {address} quic reuseport;
    ssl_certificate {certs / 'cert.pem'};
    ssl_certificate_key {certs / 'key.pem'};
    ssl_protocols TLSv1.3;
    root {site};
  }}
}}
""")
    return file
