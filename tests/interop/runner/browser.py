"""Browsers: how each is run headless, told to trust our certificate, and led to HTTP/3."""

import base64
import hashlib
import json
import shutil
import subprocess
import time

from .peers import WORK, Missing, tool

CERTS = WORK / "certs"
TIMEOUT = 90  # seconds for one run of a browser


def key_digest(certificate):
    """What --ignore-certificate-errors-spki-list wants: base64 of SHA-256 of the public key in DER."""
    openssl = tool("openssl", "openssl")
    pem = subprocess.run([openssl, "x509", "-in", certificate, "-pubkey", "-noout"], capture_output=True, check=True)
    der = subprocess.run([openssl, "pkey", "-pubin", "-outform", "der"], input=pem.stdout, capture_output=True,
                         check=True)
    return base64.b64encode(hashlib.sha256(der.stdout).digest()).decode()


class Chromium:
    name = "Chromium"
    witness = True  # gives the DOM

    def build(self):
        self.program = shutil.which("chromium") or shutil.which("chromium-browser")
        if self.program is None:
            raise Missing("chromium is not installed (Debian package chromium)")
        self.key_digest = key_digest(CERTS / "cert.pem")

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout.strip()

    def browse(self, stage, port, path, forced, done):
        """Loads the page until its script is over; returns the DOM as text."""
        profile = stage.folder / "profile"
        # Another port of the same host name makes Chromium accept our certificate for QUIC, and forces nothing.
        force = f"localhost:{port if forced else 1}"
        browser = stage.start("browser", [
            self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP localhost 127.0.0.1",  # the server has no socket on ::1
            f"--origin-to-force-quic-on={force}", f"--ignore-certificate-errors-spki-list={self.key_digest}",
            "--virtual-time-budget=20000",  # waits for fetches
            f"--log-net-log={stage.folder / 'netlog.json'}", "--dump-dom", f"https://localhost:{port}{path}",
        ])
        try:
            browser.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            browser.stop()
        browser.reader.join(5)
        shutil.rmtree(profile, ignore_errors=True)
        return "\n".join(browser.lines)


class Firefox:
    name = "Firefox"
    witness = False

    def build(self):
        self.program = shutil.which("firefox-esr") or shutil.which("firefox")
        if self.program is None:
            raise Missing("firefox-esr is not installed (Debian package firefox-esr)")
        self.certutil = tool("certutil", "libnss3-tools")

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout.strip()

    def preferences(self, port, forced):
        found = {
            # Without this an authority of one's own, such as that of a company's proxy, turns HTTP/3 off.
            "network.http.http3.disable_when_third_party_roots_found": False,
            "network.dns.disableIPv6": True,  # the server has no socket on ::1
            # No TCP connection beside the one over QUIC where that is slow.
            "network.http.http3.backup_timer_delay": 60_000,
            # Nothing that a browser does by itself.
            "app.normandy.enabled": False, "app.update.enabled": False, "browser.aboutwelcome.enabled": False,
            "browser.newtabpage.enabled": False, "browser.region.update.enabled": False,
            "browser.safebrowsing.downloads.remote.enabled": False, "browser.safebrowsing.malware.enabled": False,
            "browser.safebrowsing.phishing.enabled": False, "browser.search.update": False,
            "browser.shell.checkDefaultBrowser": False, "datareporting.policy.dataSubmissionEnabled": False,
            "dom.push.connection.enabled": False, "extensions.systemAddon.update.enabled": False,
            "extensions.update.enabled": False, "media.gmp-manager.updateEnabled": False,
            "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
            "network.trr.mode": 5, "services.settings.server": "data:,", "toolkit.telemetry.enabled": False,
            "trailhead.firstrun.didSeeAboutWelcome": True,
        }
        if forced:
            found["network.http.http3.alt-svc-mapping-for-testing"] = f"localhost;h3=:{port}"
        return "".join(f"user_pref({json.dumps(key)}, {json.dumps(value)});\n" for key, value in found.items())

    def browse(self, stage, port, path, forced, done):
        """Loads the page until `done()`; it gives no DOM."""
        profile = stage.folder / "profile"
        profile.mkdir()
        (profile / "user.js").write_text(self.preferences(port, forced))
        for arguments in (["-N", "--empty-password"], ["-A", "-n", "interop", "-t", "C,,", "-i", CERTS / "ca.pem"]):
            subprocess.run([self.certutil, *arguments, "-d", f"sql:{profile}"], check=True, stdin=subprocess.DEVNULL)
        browser = stage.start("browser", [
            self.program, "--headless", "--no-remote", "--profile", profile, f"https://localhost:{port}{path}",
        ], {"HOME": str(stage.folder), "MOZ_LOG": "timestamp,nsHttp:3", "MOZ_LOG_FILE": str(stage.folder / "moz")})
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and browser.process.poll() is None and not done():
            time.sleep(0.1)
        browser.stop()
        shutil.rmtree(profile, ignore_errors=True)
        return ""


ALL = {browser.name.lower(): browser for browser in (Chromium(), Firefox())}
