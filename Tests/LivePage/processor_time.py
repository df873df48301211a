"""What a browser costs: processor time and memory of all its processes."""

import os
from pathlib import Path

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def _parents():
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            yield int(folder.name), int(fields[1]), (int(fields[11]) + int(fields[12])) * TICK_SECONDS


def seconds(root):
    """Processor seconds of this process and those below it, until now."""
    known = {pid: (parent, used) for pid, parent, used in _parents()}
    total = 0.0
    for pid, (_, used) in known.items():
        at = pid
        while at in known and at != root:
            at = known[at][0]
        total += used if at == root else 0
    return total


def browser_process(browser):
    """The process of a Chromium that Playwright has started."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return next(process["id"] for process in processes if process["type"] == "browser")
