"""Artifacts of a failed case: logs, qlogs, TLS secrets, the packets, and the load of the machine."""

import shutil

from . import pcapng
from .peers import WORK

FAILED = WORK / "failed"
KEPT = 50  # attempts of one case; older ones go
TAIL = 12  # lines of each log that are printed
TEXT = (".out", ".err", ".txt")  # what is printed; not the TLS secrets


def fresh(folder):
    """An empty folder for the logs of one attempt."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def environment(folder, label):
    """What makes a program write its traces and secrets into `folder`."""
    traces = folder / "qlog" / label
    traces.mkdir(parents=True, exist_ok=True)
    return {"QLOGDIR": str(traces), "SSLKEYLOGFILE": str(folder / "keys.log")}


def drop(folder):
    """After a success: the large files go, the logs stay until the next run of the case."""
    shutil.rmtree(folder / "qlog", ignore_errors=True)
    (folder / "packets.pcapng").unlink(missing_ok=True)
    (folder / "keys.log").unlink(missing_ok=True)


def keep(folder, name, reason):
    """After a failure: moves `folder` to FAILED/name/attempt-N, where no later run touches it; returns that path."""
    capture, keys = folder / "packets.pcapng", folder / "keys.log"
    if capture.exists() and keys.exists():
        pcapng.embed(capture, keys)
    (folder / "reason.txt").write_text(reason + "\n")
    home = FAILED / name
    home.mkdir(parents=True, exist_ok=True)
    numbers = sorted(int(path.name.rpartition("-")[2]) for path in home.glob("attempt-*"))
    for number in numbers[: max(len(numbers) - KEPT + 1, 0)]:
        shutil.rmtree(home / f"attempt-{number}")
    target = home / f"attempt-{numbers[-1] + 1 if numbers else 1}"
    shutil.move(folder, target)
    return target


def show(folder):
    """Prints where a failure is kept and the ends of its logs."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    print(f"  kept in {folder}: {', '.join(names)}")
    for path in sorted(folder.iterdir()):
        if path.suffix in TEXT and path.is_file() and path.stat().st_size:
            lines = path.read_text(errors="replace").splitlines()
            print(f"  -- {path.name}, last {min(TAIL, len(lines))} of {len(lines)} lines")
            for line in lines[-TAIL:]:
                print(f"     {line[:300]}")
