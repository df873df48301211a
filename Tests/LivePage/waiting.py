import time


def until(page, expression, within=60):
    """Waits until an expression holds in the page. Playwright's own wait_for_function evaluates in the
    page by `eval`, which the page's policy forbids."""
    deadline = time.monotonic() + within
    while not page.evaluate(f"() => Boolean({expression})"):
        assert time.monotonic() < deadline, f"not within {within} s: {expression}"
        time.sleep(0.03)
