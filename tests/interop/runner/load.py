"""The load of the machine during a case: separates a program that waits for its peer from one that waits for a CPU."""

import os
import threading
import time
from pathlib import Path

INTERVAL = 0.25  # seconds between samples
TICK = os.sysconf("SC_CLK_TCK")


def read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def process(pid):
    """(state, CPU seconds used, seconds that its threads were ready to run and had no CPU), or None once it is gone."""
    stat = read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat.rpartition(")")[2].split()
    waited = 0
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        tasks = []
    for task in tasks:
        times = read(f"/proc/{pid}/task/{task}/schedstat").split()
        waited += int(times[1]) if len(times) > 1 else 0
    return fields[0], (int(fields[11]) + int(fields[12])) / TICK, waited / 1e9


def machine():
    """Counters of the whole machine, all growing."""
    cpu = [int(value) for value in read("/proc/stat").partition("\n")[0].split()[1:]]
    found = {"busy": sum(cpu) - cpu[3] - cpu[4] if cpu else 0, "all": sum(cpu), "stolen": cpu[7] if len(cpu) > 7 else 0}
    pressure = read("/proc/pressure/cpu").partition("\n")[0].rpartition("total=")[2]
    found["starved"] = int(pressure) / 1e6 if pressure else 0.0
    snmp = [line.split() for line in read("/proc/net/snmp").splitlines() if line.startswith("Udp:")]
    found["overflows"] = int(dict(zip(*snmp)).get("RcvbufErrors", 0)) if len(snmp) == 2 else 0
    return found


class Load:
    """Samples the programs of a case from a thread, and keeps every sample."""

    def __init__(self):
        self.started = time.monotonic()
        self.before = machine()
        self.watched = {}  # label -> pid
        self.last = {}  # label -> last sample
        self.lines = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def watch(self, label, pid):
        self.watched[label] = pid

    def run(self):
        while not self.over.wait(INTERVAL):
            self.sample()

    def sample(self):
        words = [f"{time.monotonic() - self.started:7.2f} s"]
        for label, pid in list(self.watched.items()):
            now = process(pid)
            if now and now[0] != "Z":
                self.last[label] = now
                words.append(f"{label} {now[0]} ran {now[1]:.2f} waited {now[2]:.2f}")
        words.append("load " + " ".join(read("/proc/loadavg").split()[:4]))
        self.lines.append("  ".join(words))

    def stop(self):
        """Ends the sampling; to be called while the programs still run."""
        if not self.over.is_set():
            self.over.set()
            self.thread.join()
            self.sample()
            self.after, self.wall = machine(), time.monotonic() - self.started

    def summary(self):
        """One line about where the time went."""
        used = {key: self.after[key] - self.before[key] for key in self.before}
        words = [f"{label} ran {ran:.1f} s and waited {waited:.1f} s for a CPU" for label, (_, ran, waited) in
                 self.last.items()]
        return (f"in {self.wall:.1f} s " + ", ".join(words)
                + f"; machine: {os.cpu_count()} CPUs {100 * used['busy'] / max(used['all'], 1):.0f} % busy "
                + f"({100 * used['stolen'] / max(used['all'], 1):.0f} % stolen), some task short of a CPU for "
                + f"{used['starved']:.1f} s, {used['overflows']} datagrams lost to full receive buffers")

    def text(self):
        about = "ran: CPU seconds used; waited: seconds that its threads were ready to run and had no CPU"
        return "\n".join([self.summary(), about, *self.lines]) + "\n"
