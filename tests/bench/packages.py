"""What packages cost a run when they are here already: runs inside the test machine, as root. Never a test."""

import statistics
import subprocess
import sys
import time

USER = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--"]


def timed(engine, *options):
    command = [*USER, "sbxctl", "run", "--quiet", "--engine", engine, *options, "-c", "print(4)"]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd="/")
    elapsed = time.perf_counter() - start
    assert done.stdout == b"4\n", done.stdout
    time.sleep(0.2)  # what is cleaned up behind the answer is not the next one's to pay
    return elapsed * 1000


def main():
    pairs = int(sys.argv[1])
    for engine in ("systemd", "docker"):
        timed(engine, "--with", "tea")
        timed(engine)
        with_, without = [], []
        for n in range(pairs):
            # Whoever comes second has no advantage.
            if n % 2:
                with_.append(timed(engine, "--with", "tea"))
            without.append(timed(engine))
            if not n % 2:
                with_.append(timed(engine, "--with", "tea"))
        difference = statistics.median(a - b for a, b in zip(with_, without))
        print(f"{engine:8} with {statistics.median(with_):7.1f} ms  without {statistics.median(without):7.1f} ms  "
              f"difference of pairs {difference:+6.1f} ms")


main()
