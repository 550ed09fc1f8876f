"""A live cloud in one process: subscribe, publish in several formats, reopen the lake.

Run: python examples/live_cloud.py
"""

import json
import tempfile

import motet

EX = "http://example.org/"
HOT = f"""
PREFIX ex: <{EX}>
SUBSCRIPTION hot-room
  EVENT reading : ex:Reading {{ ?reading ex:room ?room ; ex:celsius ?celsius . FILTER(?celsius > 30) }}
  WHEN reading
  SELECT ?room ?celsius
"""


def show(notification: motet.Notification) -> None:
    bindings = {name: term["value"] for name, term in notification.bindings_json.items()}
    print(f"{notification.subscription}: {bindings}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with motet.open(directory) as cloud:
            cloud.subscribe(HOT, show)
            cloud.publish(
                f"@prefix ex: <{EX}> . <> a ex:Reading ; ex:room ex:kitchen ; ex:celsius 35 .",
                content_type="text/turtle",
            )
            cloud.publish(
                json.dumps(
                    {
                        "@context": {"@vocab": EX},
                        "@id": "urn:reading:2",
                        "@graph": {
                            "@id": "urn:reading:2",
                            "@type": "Reading",
                            "room": {"@id": EX + "attic"},
                            "celsius": 31,
                        },
                    }
                ),
                content_type="application/ld+json",
            )
        # The lake stores events and subscriptions: a listener that subscribes again gets the notifications it missed.
        with motet.open(directory) as cloud:
            cloud.publish(
                f"@prefix ex: <{EX}> . <> a ex:Reading ; ex:room ex:cellar ; ex:celsius 40 .",
                content_type="text/turtle",
            )
            cloud.subscribe(HOT, show)


if __name__ == "__main__":
    main()
