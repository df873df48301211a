"""What requests of control_api.py may not do: take minutes, leave this machine, or empty the lists under test."""

import schemathesis

NOWHERE = "127.0.0.1:1"


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    path = case.operation.path
    if path == "/v1/scan" and is_whole(body.get("seconds")) and 1 <= body["seconds"] <= 60:
        body["seconds"] = 1
    elif path == "/v1/pair" and isinstance(body.get("enrollment"), str | None):
        # The radio is looked for after everything else was found right.
        body["enrollment"] = "nobody"
    elif path == "/v1/enroll":
        if isinstance(body.get("exchange"), str):
            body["exchange"] = NOWHERE
    elif path == "/v1/queue/dead/purge" and body.get("all") is True:
        body["all"] = False


def is_whole(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
