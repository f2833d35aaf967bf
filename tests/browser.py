"""Headless Chromium, driven over its DevTools protocol, and the servers that it looks at.

Every wait ends as soon as what it waits for is there, or fails after `PATIENCE`: a busy machine makes tests slow, not
wrong. The programs end with their ``with``, whatever happened in it.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from pathlib import Path

import websocket

import lpkit

PATIENCE = 120  # seconds
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--window-size=1300,1500", "--remote-debugging-port=0")  # fmt: skip
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Tab": 9, "Enter": 13}


def chromium_path():
    """Where Chromium is: what the variable CHROMIUM names, else the first of `NAMES` on the path; None without one."""
    return next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *NAMES))), None)


def wait(what, found, patience=PATIENCE):
    """The first true value of `found()`; asked again until then."""
    end = time.monotonic() + patience
    while not (value := found()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience} s")
        time.sleep(0.05)
    return value


def get(url, method="GET"):
    """What the address answers; None while nobody answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE) as answer:
            return answer.read()
    except (urllib.error.URLError, ConnectionError):
        return None


@contextmanager
def running(words, log, **more):
    """A program that runs as long as the ``with``; what it says goes into the file `log`."""
    with open(log, "wb") as said, subprocess.Popen(words, stdout=said, stderr=said, **more) as program:
        try:
            yield program
        finally:
            program.terminate()
            try:
                program.wait(20)
            except subprocess.TimeoutExpired:
                program.kill()


# Servers


def free_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return server.getsockname()[1]


def environment(home):
    """Variables with which Jupyter reads and writes nothing of the user's, and kernels import the lpkit under test."""
    own = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "LPKIT"))}
    return kept | own | {"IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": str(Path(lpkit.__file__).parents[1])}


@contextmanager
def serving(words, home, ready):
    """The address of a server of Jupyter once its page `ready` answers."""
    port, log = free_port(), home / "log"
    url, program = f"http://127.0.0.1:{port}", [sys.executable, "-m", *words, "--no-browser", f"--port={port}"]
    with running(program, log, env=environment(home), cwd=home) as server:
        wait(f"the server {words[0]}", lambda: get(url + ready) or server.poll() is not None)
        assert server.poll() is None, log.read_text()[-3000:]
        yield url


def jupyterlab(home, folder):
    """JupyterLab on the notebooks of a folder, with its application at ``window.jupyterapp``, without news."""
    settings = home / "config" / "labconfig" / "page_config.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}')
    words = ["jupyterlab", "--allow-root", "--ip=127.0.0.1", f"--ServerApp.root_dir={folder}",
             "--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.expose_app_in_browser=True"]  # fmt: skip
    return serving(words, home, "/api")


def voila(home, folder):
    """Voila on the notebooks of a folder."""
    return serving(["voila", str(folder), "--Voila.ip=127.0.0.1"], home, "/voila/tree")


# The browser


@contextmanager
def chromium(home):
    """The address at which a new Chromium, with a profile of its own, is driven."""
    profile, own = home / "profile", {f"XDG_{name}_HOME": str(home) for name in ("CONFIG", "CACHE")}
    words = [chromium_path(), *FLAGS, f"--user-data-dir={profile}"]
    with running(words, home / "log", env=os.environ | own) as browser:
        port = profile / "DevToolsActivePort"
        wait("Chromium", lambda: port.exists() and port.read_text() or browser.poll() is not None)
        assert browser.poll() is None, (home / "log").read_text()[-3000:]
        yield f"http://127.0.0.1:{port.read_text().split()[0]}"


@contextmanager
def page(browser, url):
    """A new page of the browser, showing an address."""
    target = json.loads(get(f"{browser}/json/new", method="PUT"))
    address = target["webSocketDebuggerUrl"]
    with closing(websocket.create_connection(address, timeout=PATIENCE, suppress_origin=True)) as line:
        shown = Page(line)
        try:
            shown.open(url)
            yield shown
        finally:
            get(f"{browser}/json/close/{target['id']}")


class Page:
    """A page of Chromium: opened, asked, typed into, looked at; what goes wrong in it is kept in `events`."""

    def __init__(self, line):
        self.line, self.sent, self.events = line, 0, []
        for name in ("Page.enable", "Runtime.enable", "Log.enable"):
            self.call(name)
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # else JupyterLab has no current widget

    def call(self, method, **parameters):
        """The result of a method of the protocol."""
        self.sent += 1
        self.line.send(json.dumps({"id": self.sent, "method": method, "params": parameters}))
        while (answer := json.loads(self.line.recv())).get("id") != self.sent:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)

    def ask(self, expression):
        """The value of an expression of JavaScript, of what it promises where it is a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression):
        """The first true value of an expression."""
        return wait(expression, lambda: self.ask(expression))

    def press(self, key):
        """Press and release a key: one of `KEYS`, or a character."""
        said = {"key": key, "windowsVirtualKeyCode": KEYS.get(key) or ord(key.upper())}
        said |= {"code": key} if key in KEYS else {"text": key}
        self.call("Input.dispatchKeyEvent", type="keyDown", **said)
        self.call("Input.dispatchKeyEvent", type="keyUp", **said)

    def data(self, source):
        """The bytes behind an address that only the page knows and may give up any moment; `source` is JavaScript."""
        read = "new Promise(done => {const r = new FileReader(); r.onload = () => done(r.result); r.readAsDataURL(b)})"
        coded = self.ask(f"fetch({source}).then(a => a.blob()).then(b => {read})")
        return base64.b64decode(coded.split(",", 1)[1])

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def errors(self):
        """What the page said went wrong: errors on the console, exceptions nobody caught, failed requests."""
        self.ask("0")  # takes in what has been said
        return [said for event in self.events if (said := _error(event))]


def _error(event):
    """What an event of the protocol says went wrong, or None."""
    about = event.get("params", {})
    if event["method"] == "Runtime.exceptionThrown":
        details = about["exceptionDetails"]
        return details.get("exception", {}).get("description") or details["text"]
    if event["method"] == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert"):
        return " ".join(str(part.get("value", part.get("description"))) for part in about["args"])
    if event["method"] == "Log.entryAdded" and about["entry"]["level"] == "error":
        return f"{about['entry']['text']} {about['entry'].get('url', '')}"
    return None
