/* SPDX-License-Identifier: Apache-2.0 */
/* hooksess: shows the files that training wrote, and tests that it resumes. Uses only the public headers, as any program,
 * and the library's private reader and writer of JSON.
 *
 *   main.c               the list of commands
 *   command_line.c       finds the command, parses its options, prints help
 *   checkpoint_*.c       one command each; checkpoint_open.c finds and opens checkpoints
 *   checkpoint_list.c    lists the checkpoints of a directory
 *   events_*.c           one command each; events.c reads events
 *   chart*.c             draws charts: in the terminal, and as SVG
 *   status_command.c, outcome_command.c
 *                        one command each; run_files.c reads the files that a run writes about itself
 *   verify_resume.c      the command; trial_run.c runs a trial as a process, record.c compares the records of two trials
 *   statistics.c         the numbers in tensors
 *   output.c, columns.c  text output; times.c formats times
 *   json_output.c        JSON output
 *   memory.c             memory and texts on the heap */
#include "command.h"
#include "output.h"

#include <stddef.h>

/* Each command is a row here and a function. */
static const struct command commands[] = {
    {"checkpoint",
     "ls",
     "[--json] PREFIX",
     "list the tensors: name, dtype, shape, bytes; or the checkpoints of a directory",
     "Lists the tensors of a checkpoint, sorted by name, one per line: name, dtype, shape, bytes in the file.\n"
     "--json prints one array of {\"name\", \"dtype\", \"shape\"}.\n"
     "\n"
     "If PREFIX is a directory, the command lists its checkpoints and safetensors files, the oldest first, one per line:\n"
     "name, step, bytes of all files, time (UTC). \"newest\" marks the checkpoint from which a training continues. Other\n"
     "marks are \"abandoned\" and \"safetensors\". --json prints one array of {\"path\", \"kind\", \"step\", \"bytes\", \"time\", \"newest\"}.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_ls,
     NULL},
    {"checkpoint",
     "stat",
     "[--json] PREFIX",
     "print statistics of the tensors: min, max, mean, norm, NaN, ...",
     "Reads each tensor of a checkpoint and prints: the number of elements; min, max, mean and L2 norm of the finite\n"
     "elements; the counts of NaN, +infinity, -infinity and zero. For complex numbers it prints only the norm and the\n"
     "counts; a complex number is NaN or infinite if one of its parts is. For strings it prints their number and the\n"
     "bytes of their text. State of hooks and other providers (\"hooksess/...\") is listed separately. The totals come\n"
     "last.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_stat,
     NULL},
    {"checkpoint",
     "verify",
     "[--json] PREFIX",
     "verify all checksums",
     "Reads all bytes of a checkpoint that have a checksum: the index, all tensors, the lengths of strings. Prints\n"
     "each tensor that is damaged, or whose data file is missing, with the cause. The exit status is 0 only if no\n"
     "damage was found. --json prints one object of \"checkpoint\", \"tensors\", \"bytes\", \"damaged\" (an array of\n"
     "{\"tensor\", \"message\"}; the tensor null is the index) and \"not_verified\" (a number). Safetensors files have no\n"
     "checksums.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_verify,
     NULL},
    {"checkpoint",
     "diff",
     "[--json] A B",
     "compare two checkpoints",
     "Compares two checkpoints. Prints tensors that only one of them has, and tensors whose dtype or shape differs.\n"
     "Other tensors are compared bit by bit: it prints how many elements differ, the first of them, and the largest\n"
     "absolute and relative difference. A relative difference refers to the larger of the two numbers. If only one of\n"
     "them is NaN or infinite, the difference is infinite. Equal tensors are only counted.\n",
     2,
     {[OPTION_JSON] = true},
     checkpoint_diff,
     NULL},
    {"checkpoint",
     "convert",
     "[--json] FROM TO",
     "convert a checkpoint to a safetensors file, or back",
     "Converts a checkpoint to a safetensors file, or a safetensors file to a checkpoint. Exactly one of the two names\n"
     "ends in .safetensors. All tensors are converted with dtype, shape and bytes, also the state of hooks. A tensor\n"
     "that the other format does not support, such as one of strings, is an error; the identity of a state is stored\n"
     "as bytes. The metadata of a safetensors file and the graph of a checkpoint (PREFIX.meta) are left out, too.\n"
     "Existing checksums are verified. TO is replaced atomically, and is unchanged after a failure. It is an error if\n"
     "a training saves to the directory of a new checkpoint. --json prints {\"from\", \"to\"}.\n",
     2,
     {[OPTION_JSON] = true},
     checkpoint_convert,
     NULL},
    {"events",
     "ls",
     "[--json] PATH",
     "list the files and tags: kinds, counts, steps",
     "Lists event files, with their number of records and their steps, and then the tags in them: the kind of the\n"
     "values, their number, their steps, and their TensorBoard plugin. --json prints one object of \"files\", \"events\"\n"
     "(the number of events of each kind) and \"tags\".\n",
     1,
     {[OPTION_JSON] = true},
     events_ls,
     NULL},
    {"events",
     "cat",
     "[--json] [--tag TAG] [--from STEP] [--to STEP] PATH",
     "print the events, one value per line",
     "Prints events, one line for each value of a summary: step, time (seconds since 1970), kind of the event, tag,\n"
     "kind of the value with its plugin, and the number if it is a scalar. --tag selects a tag; it may be a pattern\n"
     "with * and ?. --from and --to select steps, including both. --json prints one object per line.\n",
     1,
     {[OPTION_JSON] = true, [OPTION_TAG] = true, [OPTION_FROM] = true, [OPTION_TO] = true},
     events_cat,
     NULL},
    {"events",
     "check",
     "[--json] PATH",
     "verify all records",
     "Reads all records and prints where files are damaged: the file, the byte, the cause, and how many bytes were\n"
     "skipped. A file that ends inside a record, because its writer was killed, is called truncated. --json prints one\n"
     "array of {\"file\", \"offset\", \"bytes\", \"truncated\", \"what\"}.\n",
     1,
     {[OPTION_JSON] = true},
     events_check,
     NULL},
    {"events",
     "compact",
     "[--json] {--delete | --output FILE} DIRECTORY",
     "merge event files, without events that a restart made obsolete",
     "Merges all event files of a directory into one. Summaries that TensorBoard ignores are left out: those of a step\n"
     "at or above the step from which a later run restarted. The only event that describes a tag is kept.\n"
     "--output FILE: writes FILE, in another directory, and does not change DIRECTORY.\n"
     "--delete: writes the file to DIRECTORY, syncs it, and deletes the old files. Nothing is changed if an old file\n"
     "is damaged other than truncated, if a training saves its checkpoints to DIRECTORY, or if a file grows in the\n"
     "meantime. Stop other writers first, because events in their memory are not merged. If --delete is interrupted,\n"
     "run it again.\n",
     1,
     {[OPTION_JSON] = true, [OPTION_DELETE] = true, [OPTION_OUTPUT] = true},
     events_compact,
     NULL},
    {"events",
     "plot",
     "[--json | --svg FILE] [--from STEP] [--to STEP] TAG PATH ...",
     "draw a chart of a scalar, of one run or several",
     "Draws the values of a scalar over the steps, in the terminal. Each PATH is a run, which gets a line. TAG may be a\n"
     "pattern with * and ?: then each tag gets a line. Summaries that a restart made obsolete are left out. NaN and\n"
     "infinity interrupt a line, and are counted. The chart has the width of the terminal, or $COLUMNS. --from and --to\n"
     "select steps, including both.\n"
     "--svg FILE writes the chart as a picture instead. --json prints one array of {\"run\", \"tag\", \"steps\", \"values\"};\n"
     "a value that is not finite is null.\n",
     TWO_OR_MORE,
     {[OPTION_JSON] = true, [OPTION_SVG] = true, [OPTION_FROM] = true, [OPTION_TO] = true},
     events_plot,
     NULL},
    {"status",
     NULL,
     "[--json] DIRECTORY",
     "print the state of a run: alive or not, step, speed, newest checkpoint",
     "Prints whether a run is alive, its last known step, its speed, and its newest checkpoint. DIRECTORY is the\n"
     "checkpoint_dir of a training. The state is one of\n"
     "  running   a process holds the lock of the directory\n"
     "  ended     outcome.json says how: see 'hooksess outcome'\n"
     "  crashed   the process of status.json has ended without an outcome; start the program again to continue\n"
     "  unknown   status.json is missing, or a process of another host wrote it and no process holds the lock\n"
     "The step is that of status.json, or of the last event if that is later. The speed is the last \"global_step/sec\" of\n"
     "the newest event file, or is computed from its events, or from the two newest checkpoints. The command locks and\n"
     "changes nothing.\n"
     "--json prints an object: \"state\", \"locked_by\", \"step\", \"time\", \"steps_per_sec\", \"last_durable_step\",\n"
     "\"checkpoint\", \"checkpoint_time\", \"checkpoints\" (their number), \"bytes\", \"status\" and \"outcome\" (the contents of\n"
     "the files).\n",
     1,
     {[OPTION_JSON] = true},
     status_command,
     "Exit status: 0: the run is alive, complete, interrupted, or in an unknown state. 1: it crashed or failed, or a file\n"
     "is damaged. 2: an error occurred.\n"},
    {"outcome",
     NULL,
     "[--json] DIRECTORY",
     "print how a run ended, and exit with its exit code",
     "Prints the outcome.json of a run: the reason, the last step, the last saved step, the exit code, the error, and\n"
     "failures that the run survived. DIRECTORY is the checkpoint_dir of a training. --json prints the file.\n",
     1,
     {[OPTION_JSON] = true},
     outcome_command,
     "Exit status: the exit code of the run. 0: complete. 75: interrupted, and the last step is saved; start the program\n"
     "again. 128+n: ended by signal n. 1: failed. 2: the run has not ended, or crashed, or an error occurred.\n"},
    {"verify-resume",
     NULL,
     "[--json] [--steps N] [--middle N] [--fetch NAMES] [--ignore NAMES] [--keep DIR] [--] PROGRAM ...",
     "test that a resumed program continues bit for bit",
     "Trains twice and compares the two runs bit for bit. The first run is not interrupted. The second run is killed\n"
     "in the middle, after a checkpoint was saved, and started again. After one more step it is stopped, as by a\n"
     "signal: the program leaves its loop and closes its session. Then it is started once more. In both runs the\n"
     "first training session of the program (hs_training_session_open) records a checksum of each variable, state and\n"
     "value of the graph after each step. The command prints the first step that differs, and what differs in it.\n"
     "\n"
     "If this step follows a restart, the checkpoint lacks something that the step reads. Usually this is\n"
     "  - the state of a random number generator, or the position in the data. Add it with hs_graph_bytes, or, if it has\n"
     "    pointers or open files, with hs_graph_state;\n"
     "  - an optimizer's moments, or a buffer that is swapped with the memory of a variable. Add it with hs_graph_variable,\n"
     "    or, if its memory moves or is allocated in a step, with hs_graph_variable_at.\n"
     "A value that is not computed in each step may differ without an error: name it in --ignore.\n"
     "State of hooks that depends on times is not compared (HS_HOOK_STATE_VARIES; stop_after, watchdog, rows every N\n"
     "seconds).\n"
     "\n"
     "  --steps N        the last step of both runs, after which the program is killed. Default: 20\n"
     "  --middle N       the step of the kill, and the only one to restart from. Default: half of --steps; the stop is at\n"
     "                   the next step\n"
     "  --fetch NAMES    more tensors to compare, separated by commas. Needed for tensors of TensorFlow's graphs\n"
     "  --ignore NAMES   what may differ, separated by commas: names as the command prints them\n"
     "  --keep DIR       a new or empty directory that keeps the checkpoints, records and output (NAME.log) of the runs.\n"
     "                   Default: a directory in $TMPDIR or /tmp that is deleted\n"
     "\n"
     "Your checkpoint_dir and summary_dir are not changed: when the program opens the session, the library uses other\n"
     "directories instead. Files that the program itself writes are written, and so are those of hooks in other\n"
     "directories. There, a checkpoint saver abandons the checkpoints of the real run. Standard input is empty. The\n"
     "program must train --steps steps in one session and one process: MPI programs and workers of a cluster are not\n"
     "supported.\n"
     "--json prints an object: \"same\" (true or false), \"steps\" (number of equal steps), \"resumed_at\", \"step\",\n"
     "\"differences\".\n",
     A_PROGRAM,
     {[OPTION_JSON] = true,
      [OPTION_STEPS] = true,
      [OPTION_MIDDLE] = true,
      [OPTION_FETCH] = true,
      [OPTION_IGNORE] = true,
      [OPTION_KEEP] = true},
     verify_resume,
     NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, {false}, NULL, NULL},
};

int main(int argc, char **argv)
{
    output_begin();
    return output_end(command_line_run(commands, argc, argv));
}
