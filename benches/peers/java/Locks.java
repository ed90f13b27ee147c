import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Contenders for one InterProcessMutex: a client and a thread each. */
class Locks implements Peer.Repetition {
    final InterProcessMutex[] locks;
    final long hold, think;
    final AtomicInteger inside = new AtomicInteger();
    final AtomicLong overlaps = new AtomicLong(), released = new AtomicLong();
    volatile boolean recording, running;

    Locks(String name, int contenders, long hold, long think) throws Exception {
        this.hold = hold;
        this.think = think;
        locks = new InterProcessMutex[contenders];
        for (int i = 0; i < contenders; i++) locks[i] = new InterProcessMutex(Peer.client(), "/curator/" + name);
    }

    public String run(long[] numbers) throws Exception {
        AtomicLongArray counts = new AtomicLongArray(locks.length);
        Queue<Long> handOffs = new ConcurrentLinkedQueue<>(), cycles = new ConcurrentLinkedQueue<>();
        Thread[] threads = new Thread[locks.length];
        running = true;
        overlaps.set(0);
        released.set(0);
        for (int i = 0; i < locks.length; i++) {
            int me = i;
            threads[i] = new Thread(() -> {
                try {
                    while (running) cycle(me, counts, handOffs, cycles);
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        Thread.sleep(numbers[0]);
        Peer.say("BEGIN");
        recording = true;
        long began = System.nanoTime();
        Thread.sleep(numbers[1]);
        // A machine with other work may need longer for the first.
        while ((handOffs.isEmpty() || cycles.isEmpty()) && System.nanoTime() - began < 30e9) Thread.sleep(5);
        recording = false;
        double seconds = (System.nanoTime() - began) / 1e9;
        Peer.say("END");
        running = false;
        for (Thread thread : threads) thread.join();
        long total = 0, fewest = Long.MAX_VALUE, most = 0;
        for (int i = 0; i < locks.length; i++) {
            total += counts.get(i);
            fewest = Math.min(fewest, counts.get(i));
            most = Math.max(most, counts.get(i));
        }
        long[] taken = nanos(handOffs);
        return "acquisitions_s=" + total / seconds + " hand_off_p50_ms=" + Peer.ms(taken, 0.5)
            + " hand_off_p99_ms=" + Peer.ms(taken, 0.99) + " cycle_p99_ms=" + Peer.ms(nanos(cycles), 0.99)
            + " fewest=" + fewest + " most=" + most + " overlaps=" + overlaps.get();
    }

    void cycle(int me, AtomicLongArray counts, Queue<Long> handOffs, Queue<Long> cycles) throws Exception {
        if (think > 0) Thread.sleep(think);
        long began = System.nanoTime();
        locks[me].acquire();
        long now = System.nanoTime();
        if (inside.getAndIncrement() != 0) overlaps.incrementAndGet();
        long before = released.getAndSet(0);
        if (recording) {
            counts.incrementAndGet(me);
            if (before != 0) handOffs.add(now - before);
        }
        if (hold > 0) Thread.sleep(hold);
        inside.decrementAndGet();
        released.set(System.nanoTime());
        locks[me].release();
        if (recording) cycles.add(System.nanoTime() - began);
    }

    static long[] nanos(Queue<Long> durations) {
        return durations.stream().mapToLong(x -> x).toArray();
    }
}
