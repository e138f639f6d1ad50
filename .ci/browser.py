"""A headless Chromium, driven through a pipe by its DevTools protocol: opens pages, runs scripts in them, takes
pictures."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

TIMEOUT = 240  # seconds for one command: a page may be large and the machine busy
NAMES = ["chromium", "chromium-browser", "google-chrome"]


def find():
    """The program, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One running Chromium. Use it as a context, so that it is ended."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp()
        mine, theirs = [], []
        for direction in range(2):
            read, write = os.pipe()
            # Above all numbers that the child's own pipes get below.
            high = fcntl.fcntl(read if direction == 0 else write, fcntl.F_DUPFD, 20)
            os.close(read if direction == 0 else write)
            theirs.append(high)
            mine.append(write if direction == 0 else read)
        self.to, self.back = mine
        arguments = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--remote-debugging-pipe", f"--user-data-dir={self.folder}/profile", "about:blank",
        ]
        # The browser reads commands from 3 and answers on 4.
        shell = ["bash", "-c", 'exec 3<&"$1" 4>&"$2"; exec "${@:3}"', "browser", *map(str, theirs)]
        self.process = subprocess.Popen(
            [*shell, program, *arguments], pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for descriptor in theirs:
            os.close(descriptor)
        self.unread, self.last, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
        except OSError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, method, parameters=None, session=None):
        """Sends a command; gives its number."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        return self.last

    def receive(self, until):
        """The next message; an error if there is none in time."""
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.back], [], [], max(0, until - time.monotonic()))
            data = os.read(self.back, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("the browser does not answer")
            self.unread += data
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, parameters=None, session=None):
        """Sends a command and waits for its result."""
        number, until = self.send(method, parameters, session), time.monotonic() + TIMEOUT
        while True:
            message = self.receive(until)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def wait(self, method, session):
        """Waits for an event of a page."""
        until = time.monotonic() + TIMEOUT
        while True:
            for event in self.events:
                if event.get("method") == method and event.get("sessionId") == session:
                    return event["params"]
            self.events.append(self.receive(until))

    def page(self, width=1200, height=1000, dark=False):
        """An empty page of this size."""
        return Page(self, width, height, dark)


class Page:
    """A page. Use it as a context, so that it is closed."""

    def __init__(self, browser, width, height, dark):
        self.browser = browser
        self.target = browser.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = browser.ask("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"]
        for domain in ["Page", "Runtime", "Log"]:
            self.ask(domain + ".enable")
        scheme = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.ask("Target.closeTarget", {"targetId": self.target})
        self.browser.events.clear()

    def ask(self, method, parameters=None):
        """Sends a command to the page and waits for its result."""
        return self.browser.ask(method, parameters, self.session)

    def size(self, width, height, scale=1):
        """Sets the size of the window in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", metrics)

    def before(self, script):
        """A script that runs before those of the page."""
        self.ask("Page.addScriptToEvaluateOnNewDocument", {"source": script})

    def count_cpu(self):
        """Counts the time that the page's thread is at work from now on, not the time that passes."""
        self.ask("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu(self):
        """Seconds that scripts have worked since, and everything."""
        metrics = {metric["name"]: metric["value"] for metric in self.ask("Performance.getMetrics")["metrics"]}
        return metrics["ScriptDuration"], metrics["TaskDuration"]

    def open(self, path):
        """Opens a file and waits until it is loaded."""
        self.ask("Page.navigate", {"url": path.resolve().as_uri()})
        self.browser.wait("Page.loadEventFired", self.session)

    def run(self, script):
        """The value of an expression; of a promise what it comes to."""
        parameters = {"expression": script, "awaitPromise": True, "returnByValue": True}
        result = self.ask("Runtime.evaluate", parameters)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def press(self, key, shift=False):
        """Presses a key, as a user does."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        common = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": 8 if shift else 0}
        self.ask("Input.dispatchKeyEvent", {"type": "keyDown", **common})
        self.ask("Input.dispatchKeyEvent", {"type": "keyUp", **common})

    def complaints(self):
        """Errors and warnings of the page and its scripts so far."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append("console: " + " ".join(str(word.get("value", word.get("description"))) for word in params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append("log: " + params["entry"]["text"])
        return found

    def picture(self, file, clip=None):
        """Writes a PNG of the window, or of a part of the page."""
        parameters = {"format": "png", "captureBeyondViewport": bool(clip)}
        if clip:
            parameters["clip"] = {**clip, "scale": 1}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", parameters)["data"]))
