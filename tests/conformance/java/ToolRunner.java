import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs many of Kafka's command line tools in one JVM, one after the other, each as if in a process of its own.
 *
 * A request is one line on standard input: base64 words separated by spaces: the text for the tool's standard input, the
 * class name, the arguments. The answer is one line: exit code, base64 of standard output, base64 of standard error.
 * A tool that asks to exit has its output frozen at that moment, because some tools catch every Throwable, ours included.
 */
public final class ToolRunner {
    private static final Relay OUT = new Relay();
    private static final Relay ERR = new Relay();
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer exitCode;

    private static final class ExitRequested extends Error {
        ExitRequested(int code) {
            super("exit " + code, null, false, false);
        }
    }

    /** System.out and System.err must stay the same objects: Scala's Console and the loggers keep the first they see. */
    private static final class Relay extends OutputStream {
        private ByteArrayOutputStream target = new ByteArrayOutputStream();
        private boolean open = true;

        @Override
        public synchronized void write(int b) {
            if (open) target.write(b);
        }

        @Override
        public synchronized void write(byte[] bytes, int offset, int length) {
            if (open) target.write(bytes, offset, length);
        }

        synchronized void reset() {
            target = new ByteArrayOutputStream();
            open = true;
        }

        synchronized void close(boolean ignored) {
            open = false;
        }

        synchronized String base64() {
            return Base64.getEncoder().encodeToString(target.toByteArray());
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ", -1);
            for (int i = 0; i < words.length; i++) {
                words[i] = new String(Base64.getDecoder().decode(words[i]), StandardCharsets.UTF_8);
            }
            int code = run(words);
            answers.println(code + " " + OUT.base64() + " " + ERR.base64());
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String[] words) {
        OUT.reset();
        ERR.reset();
        HOOKS.clear();
        exitCode = null;
        System.setIn(new ByteArrayInputStream(words[0].getBytes(StandardCharsets.UTF_8)));
        String[] arguments = java.util.Arrays.copyOfRange(words, 2, words.length);
        try {
            Class.forName(words[1]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            uncaught(e.getCause());
        } catch (ReflectiveOperationException e) {
            uncaught(e);
        }
        HOOKS.forEach(ToolRunner::runHook);
        return exitCode == null ? 0 : exitCode;
    }

    /** What the JVM prints for an exception that leaves main. */
    private static void uncaught(Throwable error) {
        if (error instanceof ExitRequested || exitCode != null) return;
        System.err.print("Exception in thread \"main\" ");
        error.printStackTrace();
        exitCode = 1;
    }

    private static void runHook(Runnable hook) {
        Thread thread = new Thread(hook, "shutdown-hook");
        thread.setDaemon(true);
        thread.start();
        try {
            thread.join(10_000);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void exit(int code) {
        if (exitCode == null) {
            exitCode = code;
            OUT.close(true);
            ERR.close(true);
        }
        throw new ExitRequested(code);
    }
}
