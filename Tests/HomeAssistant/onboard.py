"""Makes the owner of a new Home Assistant, as its first page does: onboard.py URL LOG

Prints what HomeAssistantTests have to know.
"""
import json
import sys
import urllib.parse
import urllib.request

url, log = sys.argv[1:]
# What calls itself so may have a token: an application on the same machine.
CLIENT = f"{url}/"


def post(path, body, kind):
    request = urllib.request.Request(url + path, body.encode(), {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


owner = {"name": "Owner", "username": "owner", "password": "x" * 16, "client_id": CLIENT, "language": "en"}
code = post("/api/onboarding/users", json.dumps(owner), "application/json")["auth_code"]
grant = {"grant_type": "authorization_code", "code": code, "client_id": CLIENT}
token = post("/auth/token", urllib.parse.urlencode(grant), "application/x-www-form-urlencoded")["access_token"]
json.dump({"url": url, "token": token, "log": log}, sys.stdout)
