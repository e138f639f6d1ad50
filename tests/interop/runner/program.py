"""Child processes of the runner: their output line by line, and their end."""

import os
import subprocess
import threading
import time

STOP_TIMEOUT = 5  # seconds between SIGTERM and SIGKILL


class Program:
    """A child process whose standard output is read line by line."""

    def __init__(self, label, command, env, logs, merge=False):
        self.label = label
        self.lines = []
        self.changed = threading.Condition()
        self.errors = open(logs / f"{label}.err", "wb")
        self.output = open(logs / f"{label}.out", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [str(part) for part in command], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merge else self.errors, text=True, errors="replace",
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.output.write(line)
            with self.changed:
                self.lines.append(line.strip())
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def matching(self, prefix):
        return [line for line in self.lines if line.startswith(prefix)]

    def wait_for(self, prefix, count, seconds):
        """Waits until `count` lines start with `prefix`; returns whether they came."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while len(self.matching(prefix)) < count:
                left = deadline - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self.reader.is_alive()):
                    break
                self.changed.wait(min(left, 0.1))
            return len(self.matching(prefix)) >= count

    def stop(self):
        """SIGTERM, then SIGKILL, to this child alone; returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
        code = self.process.wait()
        self.reader.join(STOP_TIMEOUT)
        self.output.close()
        self.errors.close()
        return code


def evidence(program):
    """The `INTEROP conn=...` lines as dicts, in the order of the connections."""
    lines = program.matching("INTEROP conn=")
    found = [dict(word.split("=", 1) for word in line.split()[1:]) for line in lines]
    return sorted(found, key=lambda line: int(line["conn"]))
