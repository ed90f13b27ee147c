"""redis-py's and kazoo's lock as one side of a comparison.

usage: locks.py redis|kazoo ADDRESS lock NAME CONTENDERS HOLD_MS THINK_MS

ADDRESS is a URL for redis-py, HOST:PORT for kazoo. A client and a thread for each contender. Prints READY. Each
line of the input is one repetition, "SETTLE_MS SPAN_MS": prints BEGIN and END around the part that counts, then a line
of figures.
"""
import math
import sys
import threading
import time


def connect(library, address, name, me):
    """The lock of one contender."""
    if library == "redis":
        import redis

        # It outlives any hold; the pause between attempts is the library's own.
        return redis.Redis.from_url(address).lock(name, timeout=30)
    import kazoo.client

    client = kazoo.client.KazooClient(hosts=address, timeout=10)
    client.start()
    return client.Lock("/kazoo/" + name, str(me))


class Race:
    def __init__(self, locks, hold, think):
        self.locks, self.hold, self.think = locks, hold, think
        self.running, self.recording = True, False
        self.inside, self.overlaps, self.released = 0, 0, None
        self.counts, self.hand_offs, self.cycles, self.failed = [0] * len(locks), [], [], []

    def contend(self, me):
        try:
            while self.running:
                self.cycle(me)
        except Exception as error:
            self.failed.append(error)

    def cycle(self, me):
        if self.think:
            time.sleep(self.think)
        began = time.perf_counter()
        self.locks[me].acquire()
        now = time.perf_counter()
        # Only who holds the lock is here.
        if self.inside:
            self.overlaps += 1
        self.inside += 1
        released, self.released = self.released, None
        if self.recording:
            self.counts[me] += 1
            if released is not None:
                self.hand_offs.append(now - released)
        if self.hold:
            time.sleep(self.hold)
        self.inside -= 1
        self.released = time.perf_counter()
        self.locks[me].release()
        if self.recording:
            self.cycles.append(time.perf_counter() - began)


def ms(seconds, part):
    if not seconds:
        return math.nan
    return sorted(seconds)[max(0, math.ceil(len(seconds) * part) - 1)] * 1e3


def say(line):
    print(line, flush=True)


def repetition(locks, hold, think, settle, span):
    race = Race(locks, hold, think)
    threads = [threading.Thread(target=race.contend, args=(me,), daemon=True) for me in range(len(locks))]
    for thread in threads:
        thread.start()
    time.sleep(settle)
    say("BEGIN")
    race.recording, began = True, time.perf_counter()
    time.sleep(span)
    # A machine with other work may need longer for the first.
    while not (race.hand_offs and race.cycles or race.failed) and time.perf_counter() - began < 30:
        time.sleep(0.005)
    race.recording = False
    seconds = time.perf_counter() - began
    say("END")
    race.running = False
    for thread in threads:
        thread.join()
    if race.failed:
        raise race.failed[0]
    figures = {
        "acquisitions_s": sum(race.counts) / seconds,
        "hand_off_p50_ms": ms(race.hand_offs, 0.5),
        "hand_off_p99_ms": ms(race.hand_offs, 0.99),
        "cycle_p99_ms": ms(race.cycles, 0.99),
        "fewest": min(race.counts),
        "most": max(race.counts),
        "overlaps": race.overlaps,
    }
    say(" ".join("%s=%s" % figure for figure in figures.items()))


def main():
    library, address, _, name, contenders, hold, think = sys.argv[1:]
    locks = [connect(library, address, name, me) for me in range(int(contenders))]
    say("READY")
    for line in sys.stdin:
        settle, span = (int(number) / 1e3 for number in line.split())
        repetition(locks, int(hold) / 1e3, int(think) / 1e3, settle, span)


main()
