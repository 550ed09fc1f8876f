import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.List;

/** Sends the rows of a stream to a Siddhi app, one by one, and keeps the pairs. Compiled by Janino: no generics, no lambdas. */
public class SiddhiRunner {
    private Object[][] rows;
    private int[] kinds;
    private long[] times;
    private long[] pairs = new long[1024];
    private int used;
    private double processor;

    /** Lines of row, key, kind, times; the last time, in milliseconds, is the time of the event. */
    public int read(String path) throws IOException {
        List lines = Files.readAllLines(Paths.get(path, new String[0]));
        rows = new Object[lines.size()][];
        kinds = new int[rows.length];
        times = new long[rows.length];
        for (int i = 0; i < rows.length; i++) {
            String[] fields = ((String) lines.get(i)).split(",");
            rows[i] = new Object[fields.length - 1];
            for (int f = 0, to = 0; f < fields.length; f++) {
                if (f != 2) rows[i][to++] = Long.valueOf(fields[f]);
            }
            kinds[i] = "ABX".indexOf(fields[2]);
            times[i] = Long.parseLong(fields[fields.length - 1]) / 1000;
        }
        return rows.length;
    }

    /** Seconds from the first row sent to the last. */
    public double run(String app) throws Exception {
        used = 0;
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(app);
        runtime.addCallback("Pairs", new StreamCallback() {
            public void receive(Event[] events) {
                for (int i = 0; i < events.length; i++) keep(events[i]);
            }
        });
        runtime.start();
        InputHandler[] streams = {
            runtime.getInputHandler("A"), runtime.getInputHandler("B"), runtime.getInputHandler("X")
        };
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long before = threads.getCurrentThreadCpuTime();
        long start = System.nanoTime();
        for (int i = 0; i < rows.length; i++) streams[kinds[i]].send(times[i], rows[i]);
        double seconds = (System.nanoTime() - start) / 1e9;
        processor = (threads.getCurrentThreadCpuTime() - before) / 1e9;
        runtime.shutdown();
        manager.shutdown();
        return seconds;
    }

    /** Seconds of processor time that the sending thread took in the last run. */
    public double processor() {
        return processor;
    }

    public int write(String path) throws IOException {
        PrintWriter out = new PrintWriter(path);
        for (int i = 0; i < used; i += 2) out.println(pairs[i] + "," + pairs[i + 1]);
        out.close();
        return used / 2;
    }

    private void keep(Event event) {
        if (used == pairs.length) pairs = Arrays.copyOf(pairs, 2 * used);
        pairs[used++] = ((Long) event.getData(0)).longValue();
        pairs[used++] = ((Long) event.getData(1)).longValue();
    }
}
