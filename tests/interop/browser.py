# SPDX-License-Identifier: Apache-2.0
"""A headless browser: Chromium, controlled by its driver with the WebDriver protocol."""
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

PATIENCE = 90  # seconds that a page has for anything; it needs a few
PAUSE = 0.2
SETTLING = 10  # seconds in which a page must stop changing before it is drawn
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
WINDOW = "1500,1100"

# Functions for the scripts: all elements that match a selector, also in shadow trees, and the text of a tree.
WALK = """
function* elements(root) {
  for (const element of root.querySelectorAll('*')) {
    yield element;
    if (element.shadowRoot) yield* elements(element.shadowRoot);
  }
}
const all = selector => [...elements(document)].filter(element => element.matches(selector));
const shown = element => { const box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
function text(node) {
  if (node.nodeType == Node.TEXT_NODE) return node.data;
  if (['SCRIPT', 'STYLE', 'TEMPLATE', 'DOM-MODULE'].includes(node.nodeName)) return '';
  if (node instanceof HTMLInputElement) return node.value;
  const children = [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes];
  return children.map(text).join(' ');
}
"""


class Browser:
    """A window. `stop` ends it and its driver."""

    def __init__(self):
        self.log = []
        self.address = self.session = None
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, cwd=self.folder.name, env={**os.environ, "HOME": self.folder.name})
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        try:
            self.wait(lambda: self.address, "the driver of Chromium does not start")
            self.session = "/session/" + self.begin()["sessionId"]
        except BaseException:
            self.stop()
            raise

    def begin(self):
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--hide-scrollbars",
                     f"--window-size={WINDOW}", f"--user-data-dir={self.folder.name}/profile"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # root cannot use it
        options = {"binary": shutil.which("chromium") or "chromium", "args": arguments}
        return self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})

    def read_log(self):
        for line in self.driver.stdout:
            self.log.append(line)
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.address = "http://127.0.0.1:" + found[1]

    def stop(self):
        try:
            if self.session:
                self.ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.reader.join(PATIENCE)
            self.driver.stdout.close()
            self.folder.cleanup()

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with DIRECTLY.open(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise AssertionError(f"{value['error']}: {value['message']}") from None

    def resize(self, width, height):
        self.ask("POST", self.session + "/window/rect", {"width": width, "height": height})

    def open(self, address):
        self.ask("POST", self.session + "/url", {"url": address})

    def run(self, script, *arguments):
        """The result of a script that may use `all`, `shown` and `text`."""
        return self.ask("POST", self.session + "/execute/sync", {"script": WALK + script, "args": list(arguments)})

    def text(self):
        """The words of the page, separated by single spaces."""
        return " ".join(self.run("return text(document.body);").split())

    def save_screenshot(self, path):
        """Of the page when nothing moves any more, or after a while."""
        path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + SETTLING
        before, picture = None, self.ask("GET", self.session + "/screenshot")
        while picture != before and time.monotonic() < until:
            time.sleep(PAUSE)
            before, picture = picture, self.ask("GET", self.session + "/screenshot")
        path.write_bytes(base64.b64decode(picture))

    def wait(self, condition, complaint):
        """Repeats the request until there is an answer."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            answer = condition()
            if answer:
                return answer
            if self.driver.poll() is not None:
                complaint = "the driver of Chromium ended"
                break
            time.sleep(PAUSE)
        raise AssertionError(f"{complaint}\n{''.join(self.log[-20:])}")
