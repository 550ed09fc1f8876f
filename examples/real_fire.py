"""A composite subscription, live: smoke, then heat in the same room, unless there is a drill; with derived events.

A second subscription matches the events that the first one derives. Open occurrences survive the end of the process.

Run: python examples/real_fire.py
"""

import tempfile

import motet

EX = "http://example.org/building#"
FIRE = f"""
PREFIX ex: <{EX}>
SUBSCRIPTION real-fire
  EVENT smoke : ex:SmokeAlarm {{ ?smoke ex:room ?room ; ex:level ?level . FILTER(?level > 3) }}
  EVENT heat  : ex:HeatAlarm  {{ ?heat ex:room ?room }}
  EVENT drill : ex:FireDrill  {{ ?drill ex:room ?room }}
  WHEN (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min
  CONTEXT chronicle
  CONSTRUCT {{ ?this a ex:Fire ; ex:room ?room ; ex:seenBy ?smoke, ?heat }}

SUBSCRIPTION call-the-brigade
  EVENT fire : ex:Fire {{ ?fire ex:room ?room }}
  WHEN fire
  SELECT ?room
"""
SMOKE = "a ex:SmokeAlarm ; ex:level 5"
HEAT = "a ex:HeatAlarm"
DRILL = "a ex:FireDrill"


def event(name: str, properties: str, room: str, time: str) -> str:
    return f"""
        @prefix ex: <{EX}> . @prefix prov: <http://www.w3.org/ns/prov#> .
        @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
        <urn:{name}> {{ <urn:{name}> {properties} ; ex:room ex:{room} ; prov:startedAtTime "{time}"^^xsd:dateTime . }}
    """


def show(notification: motet.Notification) -> None:
    bindings = {name: term["value"].removeprefix(EX) for name, term in notification.bindings_json.items()}
    print(f"{notification.subscription}: {bindings['room']}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with motet.open(directory) as cloud:
            cloud.subscribe(FIRE, show)
            for arguments in (
                ("s1", SMOKE, "lab", "2026-11-15T10:00:00Z"),
                ("s2", SMOKE, "attic", "2026-11-15T10:00:30Z"),
                ("h1", HEAT, "lab", "2026-11-15T10:02:00Z"),
            ):
                cloud.publish(event(*arguments), content_type="application/trig")
        print("the process ends; two alarms are open, and one pair is pending until a drill can no longer follow")
        with motet.open(directory) as cloud:
            cloud.subscribe(FIRE, show)
            cloud.publish(event("h2", HEAT, "attic", "2026-11-15T10:03:00Z"), content_type="application/trig")
            cloud.publish(event("d2", DRILL, "attic", "2026-11-15T10:09:00Z"), content_type="application/trig")
            # A tick moves the frontier: no event that ends before this instant counts any more.
            cloud.tick("2026-11-15T11:00:00Z")


if __name__ == "__main__":
    main()
