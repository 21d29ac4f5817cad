"""A DNS server that answers as a test wants: runs in the test machine, in the network of network_lab.py.

usage: lab_dns.py ADDRESS ZONE-FILE LOG-FILE

The zone is a JSON object: a name has a list of answers, given in turn, the last one for good. An answer is a list of records
(["A", "192.0.2.1"], ["AAAA", ...], ["CNAME", "other.example"]) or "silent"; ["DELAY", seconds] among them lets it wait.
Unknown names do not exist. Every question becomes a line "TYPE NAME" in the log. It ends with its standard input. Must never
ask anybody else.
"""

import collections
import ipaddress
import json
import os
import pathlib
import socket
import struct
import sys
import threading
import time

TYPES = {1: "A", 5: "CNAME", 28: "AAAA"}
NUMBERS = {name: number for number, name in TYPES.items()}
NXDOMAIN = 3


def encode(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def question_of(packet):
    """The name asked for, its type, and where the question ends."""
    labels, at = [], 12
    while length := packet[at]:
        labels.append(packet[at + 1 : at + 1 + length].decode("latin-1").lower())
        at += 1 + length
    (kind,) = struct.unpack_from(">H", packet, at + 1)
    return ".".join(labels), kind, at + 5


def record(owner, kind, value):
    data = encode(value) if kind == "CNAME" else ipaddress.ip_address(value).packed
    return encode(owner) + struct.pack(">HHIH", NUMBERS[kind], 1, 0, len(data)) + data


class Zone:
    def __init__(self, names):
        self.names = names
        self.asked = collections.Counter()
        self.lock = threading.Lock()

    def turn(self, name, kind):
        """The records for this question; A and AAAA have turns of their own. None: no such name."""
        with self.lock:
            number = self.asked[name, kind]
            self.asked[name, kind] += 1
        answers = self.names.get(name)
        return answers and answers[min(number, len(answers) - 1)]

    def resolve(self, name, kind):
        """Records with their owners, along a chain of CNAMEs."""
        found, owner = [], name
        for _ in range(len(self.names)):
            records = self.turn(owner, kind)
            if records is None or records == "silent":
                return records
            found += [(owner, k, v) for k, v in records if k in ("CNAME", "DELAY", kind)]
            following = [v for k, v in records if k == "CNAME"]
            if not following:
                break
            owner = following[0]
        return found


def answer(zone, packet):
    name, kind, end = question_of(packet)
    found = zone.resolve(name, TYPES.get(kind))
    if found == "silent":
        return None
    code = NXDOMAIN if found is None else 0
    found = found or []
    time.sleep(sum(value for _, k, value in found if k == "DELAY"))
    records = [record(*each) for each in found if each[1] != "DELAY"]
    head = packet[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, len(records), 0, 0)
    return head + packet[12:end] + b"".join(records)


def end_with_input():
    sys.stdin.buffer.read()
    os._exit(0)


def main(address, zone_file, log_file):
    zone = Zone(json.loads(pathlib.Path(zone_file).read_text()))
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    print("up", flush=True)
    threading.Thread(target=end_with_input, daemon=True).start()

    def serve(packet, peer):
        reply = answer(zone, packet)
        if reply:
            server.sendto(reply, peer)

    with open(log_file, "a", buffering=1) as log:
        while True:
            packet, peer = server.recvfrom(4096)
            try:
                name, kind, _ = question_of(packet)
            except (IndexError, struct.error):
                continue
            log.write(f"{TYPES.get(kind, kind)} {name}\n")
            threading.Thread(target=serve, args=(packet, peer), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
