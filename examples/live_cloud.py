"""A live cloud in one process: subscribe, publish in several formats, reopen the lake.

Run: python examples/live_cloud.py
"""

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
    print(f"{notification.subscription}: {notification['room']} has {notification['celsius']} degrees")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with motet.open(directory) as cloud:
            cloud.subscribe(HOT, show)
            cloud.publish(f"@prefix ex: <{EX}> . <> a ex:Reading ; ex:room ex:kitchen ; ex:celsius 35 .")
            attic = {"@id": EX + "attic"}
            cloud.publish({"@context": {"@vocab": EX}, "@type": "Reading", "room": attic, "celsius": 31})
        # The lake stores events and subscriptions: a listener that subscribes again gets the notifications it missed.
        with motet.open(directory) as cloud:
            cloud.publish(f"@prefix ex: <{EX}> . <> a ex:Reading ; ex:room ex:cellar ; ex:celsius 40 .")
            cloud.subscribe(HOT, show)


if __name__ == "__main__":
    main()
