# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that is driven by the DevTools protocol over a pair of pipes: pages run as
they are, under their own policy, and no package is needed."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 900.0  # seconds, after which it hangs


def find() -> str | None:
    """The program of CHROMIUM, or the first known name in PATH that runs: on some systems the name
    is a stub that asks for another package."""
    if os.environ.get("CHROMIUM"):
        return os.environ["CHROMIUM"]
    return next((path for name in _NAMES if (path := shutil.which(name)) and _runs(path)), None)


def _runs(program: str) -> bool:
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True, timeout=_PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _above_ten(descriptor: int) -> int:
    """The same pipe under a number that neither 3 nor 4 can collide with."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return moved


class BrowserError(Exception):
    """The browser did not start, did not answer, or refused a command."""


class Browser:
    """One page at a time; use as a context manager."""

    def __init__(self, program: str, profile: Path) -> None:
        self.complaints: list[str] = []  # errors and warnings of the console since the last visit
        self.requests: list[str] = []  # what the page asked for since the last visit
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._seen: list[str] = []
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        to_browser, from_browser = _above_ten(to_browser), _above_ten(from_browser)
        # The protocol is spoken on descriptors 3 and 4 (Bash, since other shells know no number of
        # two digits). A container's root cannot use the sandbox.
        command = [
            "bash",
            "-c",
            f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}',
            program,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        with (profile.parent / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                pass_fds=(to_browser, from_browser),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        os.close(to_browser)
        os.close(from_browser)
        try:
            targets = self._send("Target.getTargets")["targetInfos"]
            page = next((t for t in targets if t["type"] == "page"), None)
            target = (
                page["targetId"]
                if page
                else self._send("Target.createTarget", url="about:blank")["targetId"]
            )
            attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
        except BrowserError:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        try:
            self._process.wait(5)  # it ends with its pipe
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def visit(self, url: str, width: int = 1280, height: int = 900) -> None:
        """Loads a page into a window of this size, in the pixels of its style sheet; what it has
        packed is there when this returns."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )
        self.send("Page.navigate", url="about:blank")
        self._until("Page.loadEventFired")
        self.complaints, self.requests = [], []
        self.send("Page.navigate", url=url)
        self._until("Page.loadEventFired")
        self.run("globalThis.unpacked")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the element."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    def press(self, key: str, text: str) -> None:
        """A key, to whatever has the focus."""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._send(method, self._session, **parameters)

    def _send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._seen = []
        try:
            os.write(self._out, json.dumps(message).encode() + b"\0")
        except OSError as error:
            raise BrowserError(f"{method}: {error}") from error
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def _until(self, event: str) -> None:
        """Waits for an event, which may have come while the last command was answered."""
        while event not in self._seen:
            self._receive()
        self._seen = []

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._in, 1 << 20) if ready else b""
            if not chunk:
                raise BrowserError("the browser ended" if ready else "the browser does not answer")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        self._seen.append(method)
        if method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(parameters["args"])[:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"][:200])
