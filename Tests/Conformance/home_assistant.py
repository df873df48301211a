"""Evaluates the templates by which Home Assistant reads a gateway's state, as it does: with Jinja in a sandbox.

Standard input has what `destination show` prints as the example of a destination mqtt: a topic a line, its message
below. Prints a line for each component: device, component, value.
"""
import json
import sys

from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

lines = sys.stdin.read().splitlines()
messages = {topic.split(" ")[0]: message.strip() for topic, message in zip(lines[::2], lines[1::2], strict=True)}
jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined)


def value(topic, template):
    """What a template makes of a topic's message; the message itself without one."""
    message = messages[topic]
    return jinja.from_string(template).render(value_json=json.loads(message)) if template else message


for topic, message in messages.items():
    if not topic.startswith("homeassistant/device/"):
        continue
    description = json.loads(message)
    assert description["availability_topic"] in messages
    for name, component in sorted(description["components"].items()):
        state = value(component.get("state_topic", description.get("state_topic")), component.get("value_template"))
        if component.get("device_class") == "enum":
            assert state in component["options"], state
        elif component["platform"] == "sensor":
            float(state)
        else:
            assert state in (component.get("payload_on", "ON"), component.get("payload_off", "OFF")), state
        if "json_attributes_topic" in component:
            attributes = json.loads(value(component["json_attributes_topic"], component["json_attributes_template"]))
            assert attributes == {"items": []}, attributes
        print(description["device"]["name"], name, state)
