"""One run of one case: its folder, its programs, the packets between them and the load beside them."""

import shutil
import time

from . import artifacts
from .load import Load
from .peers import HERE, python
from .program import Program

CAPTURE_TIMEOUT = 5  # seconds until the capture has begun


class Stage:
    def __init__(self, folder):
        self.folder = artifacts.fresh(folder)
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        self.programs = []
        self.load = Load()

    def start(self, label, command, env=None, merge=False):
        """`merge`: what it writes to standard error counts as output."""
        traces = artifacts.environment(self.folder, label)
        try:
            program = Program(label, command, {**traces, **(env or {})}, self.folder, merge)
        except OSError as error:
            raise AssertionError(f"{label} cannot be started: {error}") from None
        self.programs.append(program)
        self.load.watch(label, program.process.pid)
        return program

    def capture(self, port):
        """Captures what client and server send each other, where that is permitted."""
        capture = self.start("capture", [python(), HERE / "capture.py", self.folder / "packets.pcapng", str(port)])
        capture.wait_for("CAPTURE ready", 1, CAPTURE_TIMEOUT)

    def ask_where(self, *sides):
        """Has the programs that can do so write to their logs where they stand."""
        for program, peer in sides:
            if peer.tells_where and program.process.poll() is None:
                program.process.send_signal(peer.tells_where)
        time.sleep(0.5)

    def stop(self, keep_downloads=False):
        """Ends every program, the last one started first."""
        self.load.stop()
        for program in reversed(self.programs):
            program.stop()
        if not keep_downloads:
            shutil.rmtree(self.downloads, ignore_errors=True)

    def settle(self, name, problem):
        """Keeps what is there if there was a problem, drops it if not."""
        self.stop()
        if problem:
            (self.folder / "load.txt").write_text(self.load.text())
            artifacts.show(artifacts.keep(self.folder, name, problem))
        else:
            artifacts.drop(self.folder)
