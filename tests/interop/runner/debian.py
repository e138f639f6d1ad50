"""Programs of a newer Debian than the machine's, unpacked beside the system: needs apt-get and dpkg-deb, but no root.

Debian 12 has nginx, curl and HAProxy without HTTP/3; those of Debian 13 have it.
"""

import shutil
import subprocess

from .peers import WORK, Missing, build, tool

SUITE = "trixie"
PACKAGES = ["curl", "haproxy", "nginx"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
HOME = WORK / f"debian-{SUITE}"
ROOT = HOME / "root"
LOADER = ROOT / "usr/lib64/ld-linux-x86-64.so.2"
LIBRARIES = ROOT / "usr/lib/x86_64-linux-gnu"
TIMEOUT = 180  # seconds for one call of apt


def has_http3(command, question, answer):
    """Whether a program says of itself that it has HTTP/3."""
    asked = subprocess.run([*command, question], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    return answer in asked.stdout


def program(name, question, answer):
    """The command line of a program with HTTP/3: the system's own if it has it, else that of SUITE."""
    own = shutil.which(name)
    if own and has_http3([own], question, answer):
        return [own]
    command = unpacked(name)
    if not has_http3(command, question, answer):
        raise Missing(f"{name} of Debian {SUITE} has no HTTP/3")
    return command


def unpacked(name):
    """The command line of a program of SUITE."""
    stamp = HOME / "unpacked.txt"
    if not stamp.exists() or stamp.read_text().split() != PACKAGES:
        unpack()
        stamp.write_text("\n".join(PACKAGES))
    for folder in ("usr/sbin", "usr/bin"):
        if (ROOT / folder / name).exists():
            return [LOADER, "--library-path", LIBRARIES, ROOT / folder / name]
    raise Missing(f"{name} is not in {ROOT}")


def unpack():
    """Fetches PACKAGES and everything they need from the archive, checked by its keyring, and unpacks them."""
    apt, dpkg = tool("apt-get", "apt"), tool("dpkg-deb", "dpkg")
    architecture = subprocess.run([tool("dpkg", "dpkg"), "--print-architecture"], capture_output=True, text=True)
    if architecture.stdout.strip() != "amd64":
        raise Missing(f"Debian {SUITE} is fetched for amd64 only")
    shutil.rmtree(HOME, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial", "root"):
        (HOME / folder).mkdir(parents=True)
    (HOME / "status").touch()  # as if nothing were installed: what they need is fetched too
    (HOME / "sources.list").write_text(f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {SUITE} main\n")
    settings = {
        "Dir::State": HOME / "state", "Dir::State::status": HOME / "status", "Dir::Cache": HOME / "cache",
        "Dir::Etc::sourcelist": HOME / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
        "APT::Sandbox::User": "root", "APT::Install-Recommends": "false", "APT::Architecture": "amd64",
        "Acquire::Languages": "none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Retries": "2", "Acquire::http::Timeout": "30",
    }
    options = [f"-o{key}={value}" for key, value in settings.items()]
    try:
        build(["timeout", str(TIMEOUT), apt, "-qq", *options, "update"], HOME)
        build(["timeout", str(TIMEOUT), apt, "-qq", *options, "install", "-y", "--download-only", *PACKAGES], HOME)
        for package in sorted((HOME / "cache/archives").glob("*.deb")):
            subprocess.run([dpkg, "-x", package, ROOT], check=True, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        raise Missing(f"Debian {SUITE} cannot be had: {error}") from error
    shutil.rmtree(HOME / "cache")
