/* SPDX-License-Identifier: Apache-2.0 */
/* hooksess: shows the files that training wrote, and tests that it resumes. Uses only the public headers, as any program,
 * and a few files of src/base that are compiled into it.
 *
 *   main.c               the list of commands
 *   command_line.c       finds the command, parses its options, prints help
 *   checkpoint_*.c       one command each; checkpoint_open.c finds and opens checkpoints
 *   checkpoint_list.c    lists the checkpoints of a directory
 *   events_*.c           one command each; events.c reads events
 *   chart*.c             draws charts: in the terminal, and as SVG
 *   abi_command.c        prints the declarations of the headers, which cmake/reference/abi.py finds at build time
 *   status_command.c, outcome_command.c
 *                        one command each; run_files.c reads the files that a run writes about itself
 *   verify_resume.c      the command; trial_run.c runs a trial as a process, record.c compares the records of two trials
 *   statistics.c         the numbers in tensors
 *   output.c, columns.c  text output, and tables; times.c formats times
 *   json_output.c        JSON output
 *   memory.c             memory and texts on the heap */
#include "command.h"
#include "output.h"

#include <stddef.h>

static const char no_findings[] = "Exit status: 0: no error occurred. 2: an error occurred.\n";

/* Each command is a row here and a function. */
static const struct command commands[] = {
    {"checkpoint",
     "ls",
     "[--json] PREFIX",
     "list the tensors, or the checkpoints of a directory",
     "Lists the tensors of a checkpoint, sorted by name: name, dtype, shape, and size\n"
     "in the file. --json prints one array of {\"name\", \"dtype\", \"shape\", \"bytes\"}.\n"
     "\n"
     "If PREFIX is a directory, the command lists its checkpoints and safetensors\n"
     "files in the order of their steps: name, step, size of all files, time (UTC).\n"
     "\"newest\" marks the checkpoint from which a training continues. Other marks are\n"
     "\"abandoned\" and \"safetensors\". --json prints one array of {\"path\", \"kind\",\n"
     "\"step\", \"bytes\", \"time\", \"newest\"}.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_ls,
     no_findings},
    {"checkpoint",
     "stat",
     "[--json] PREFIX",
     "print min, max, mean, norm and NaN of the tensors",
     "Reads each tensor of a checkpoint and prints: min, max, mean and L2 norm of the\n"
     "finite elements; the counts of NaN, infinity and zero. For complex numbers it\n"
     "prints only the norm and the counts; a complex number is NaN or infinite if one\n"
     "of its parts is. For strings it prints their number and the size of their text.\n"
     "The row \"floats\" is of all floating-point numbers: integers, such as the step,\n"
     "are not in it. State of hooks and of the program (\"hooksess/...\") is listed\n"
     "separately.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_stat,
     no_findings},
    {"checkpoint",
     "cat",
     "[--json] PREFIX NAME",
     "print the elements of a tensor",
     "Prints dtype, shape and size of a tensor, and its first 100 elements. A line\n"
     "begins with the index of its first element; each row of the last dimension\n"
     "begins a line. Complex numbers are printed as 3-4i, strings in quotes.\n"
     "\n"
     "--json prints one object of \"name\", \"dtype\", \"shape\" and \"values\": an array of\n"
     "all elements, in row-major order. NaN and infinity are null, and a complex\n"
     "number is an array of its two parts.\n",
     2,
     {[OPTION_JSON] = true},
     checkpoint_cat,
     no_findings},
    {"checkpoint",
     "verify",
     "[--json] PREFIX",
     "verify all checksums",
     "Reads all bytes of a checkpoint that have a checksum: the index, all tensors,\n"
     "also of an unknown dtype, and the lengths of strings. Prints each tensor that is\n"
     "damaged, or whose data file is missing, with the cause. The exit status is 0\n"
     "only if no damage was found. --json prints one object of \"checkpoint\",\n"
     "\"tensors\", \"bytes\", \"damaged\" (an array of {\"tensor\", \"message\"}; the tensor\n"
     "null is the index) and \"not_verified\" (a number). Safetensors files have no\n"
     "checksums.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_verify,
     NULL},
    {"checkpoint",
     "diff",
     "[--json] [--tolerance X] A B",
     "compare two checkpoints",
     "Compares two checkpoints, tensor by tensor. Equal tensors are only counted.\n"
     "\n"
     "  -  only A has the tensor\n"
     "  +  only B has the tensor\n"
     "  ~  dtype, shape or elements differ\n"
     "\n"
     "Elements are compared bit by bit. The command prints their number, how many of\n"
     "them differ, the index of the first, and the largest absolute and relative\n"
     "difference. A relative difference refers to the larger of the two numbers. If\n"
     "only one of them is NaN or infinite, the difference is infinite. State of hooks\n"
     "and of the program (\"hooksess/...\") and strings have no distances.\n"
     "\n"
     "  --tolerance X    floating-point numbers differ only if their absolute and\n"
     "                   their relative difference are both greater than X\n"
     "\n"
     "--json prints one array of objects, one for each difference.\n",
     2,
     {[OPTION_JSON] = true, [OPTION_TOLERANCE] = true},
     checkpoint_diff,
     NULL},
    {"checkpoint",
     "convert",
     "[--json] [--skip NAMES] FROM TO",
     "convert a checkpoint to a safetensors file, or back",
     "Converts a checkpoint to a safetensors file, or a safetensors file to a\n"
     "checkpoint. Exactly one of the two names ends in .safetensors. All tensors are\n"
     "converted with dtype, shape and bytes, also the state of hooks.\n"
     "\n"
     "A safetensors file cannot hold strings. Tensors of strings, such as the object\n"
     "graph of TensorFlow 2, are skipped, and the command prints their names; the\n"
     "identity of a state is stored as bytes. Another tensor that the other format\n"
     "does not support is an error. The metadata of a safetensors file and the graph\n"
     "of a checkpoint (PREFIX.meta) are left out, too.\n"
     "\n"
     "  --skip NAMES     more tensors to leave out, separated by commas\n"
     "\n"
     "Existing checksums are verified. TO is replaced atomically, and is unchanged\n"
     "after a failure. It is an error if a training saves to the directory of a new\n"
     "checkpoint. --json prints {\"from\", \"to\", \"skipped\"}.\n",
     2,
     {[OPTION_JSON] = true, [OPTION_SKIP] = true},
     checkpoint_convert,
     no_findings},
    {"events",
     "ls",
     "[--json] PATH",
     "list the files and tags: kinds, counts, steps",
     "Lists event files, with their size, their number of records and their steps, and\n"
     "then the tags in them: the kind of the values, their number, their steps, and\n"
     "their TensorBoard plugin. --json prints one object of \"files\", \"events\" (the\n"
     "number of events of each kind) and \"tags\".\n",
     1,
     {[OPTION_JSON] = true},
     events_ls,
     NULL},
    {"events",
     "cat",
     "[--json] [--tag TAG] [--from STEP] [--to STEP] PATH",
     "print the events, one value per line",
     "Prints events, one line for each value of a summary: step, time (UTC), kind of\n"
     "the event, tag, kind of the value with its plugin, and the number if it is a\n"
     "scalar.\n"
     "\n"
     "  --tag TAG        only this tag, or all that match a pattern with * and ?.\n"
     "                   If no tag matches, the command says so, and exits with 2\n"
     "  --from STEP      no step before this\n"
     "  --to STEP        no step after this\n"
     "\n"
     "--json prints one object per line; \"wall_time\" is in seconds since 1970.\n",
     1,
     {[OPTION_JSON] = true, [OPTION_TAG] = true, [OPTION_FROM] = true, [OPTION_TO] = true},
     events_cat,
     NULL},
    {"events",
     "check",
     "[--json] PATH",
     "verify all records",
     "Reads all records and prints where files are damaged: the file, the byte, the\n"
     "cause, and how many bytes were skipped. A file that ends inside a record,\n"
     "because its writer was killed, is called truncated. --json prints one array of\n"
     "{\"file\", \"offset\", \"bytes\", \"truncated\", \"what\"}.\n",
     1,
     {[OPTION_JSON] = true},
     events_check,
     NULL},
    {"events",
     "compact",
     "[--json] {--delete | --output FILE} DIRECTORY",
     "merge event files, without obsolete events",
     "Merges all event files of a directory into one. Summaries that TensorBoard\n"
     "ignores are left out: those of a step at or above the step from which a later\n"
     "run restarted. The only event that describes a tag is kept.\n"
     "\n"
     "  --output FILE    writes FILE, in another directory, and does not change\n"
     "                   DIRECTORY\n"
     "  --delete         writes the file to DIRECTORY, syncs it, and deletes the old\n"
     "                   files\n"
     "\n"
     "With --delete, nothing is changed if an old file is damaged other than\n"
     "truncated, if a training saves its checkpoints to DIRECTORY, or if a file grows\n"
     "in the meantime. Stop other writers first, because events in their memory are\n"
     "not merged. If --delete is interrupted, run it again.\n",
     1,
     {[OPTION_JSON] = true, [OPTION_DELETE] = true, [OPTION_OUTPUT] = true},
     events_compact,
     NULL},
    {"events",
     "plot",
     "[--json | --svg FILE] [--from STEP] [--to STEP] TAG PATH ...",
     "draw a chart of a scalar, of one run or several",
     "Draws the values of a scalar over the steps, in the terminal. Each PATH is a\n"
     "run, which gets a line. TAG may be a pattern with * and ?: then each tag gets a\n"
     "line. Summaries that a restart made obsolete are left out. NaN and infinity\n"
     "interrupt a line, and are counted. The chart has the width of the terminal, or\n"
     "$COLUMNS.\n"
     "\n"
     "  --from STEP      no step before this\n"
     "  --to STEP        no step after this\n"
     "  --svg FILE       writes the chart as a picture instead\n"
     "\n"
     "--json prints one array of {\"run\", \"tag\", \"steps\", \"values\"}; a value that is\n"
     "not finite is null.\n",
     TWO_OR_MORE,
     {[OPTION_JSON] = true, [OPTION_SVG] = true, [OPTION_FROM] = true, [OPTION_TO] = true},
     events_plot,
     NULL},
    {"status",
     NULL,
     "[--json] DIRECTORY",
     "print whether a run is alive, its step and its speed",
     "Prints whether a run is alive, its last known step, its speed, and its newest\n"
     "checkpoint. DIRECTORY is the checkpoint_dir of a training. The state is one of\n"
     "\n"
     "  running   a process holds the lock of the directory\n"
     "  ended     outcome.json says how: see 'hooksess outcome'\n"
     "  crashed   the process of status.json has ended without an outcome; start the\n"
     "            program again to continue\n"
     "  unknown   status.json is missing, or a process of another host wrote it and\n"
     "            no process holds the lock\n"
     "\n"
     "The step is that of status.json, or of the last event if that is later. The\n"
     "speed is the last \"global_step/sec\" of the newest event file, or is computed\n"
     "from its events, or from the two newest checkpoints. The command locks and\n"
     "changes nothing.\n"
     "\n"
     "--json prints an object: \"state\", \"locked_by\", \"step\", \"time\",\n"
     "\"steps_per_sec\", \"last_durable_step\", \"checkpoint\", \"checkpoint_time\",\n"
     "\"checkpoints\" (their number), \"bytes\", \"status\" and \"outcome\" (the contents of\n"
     "the files).\n",
     1,
     {[OPTION_JSON] = true},
     status_command,
     "Exit status: 0: the run is alive, complete, interrupted, or in an unknown\n"
     "state. 1: it crashed or failed, or a file is damaged. 2: an error occurred.\n"},
    {"outcome",
     NULL,
     "[--json] DIRECTORY",
     "print how a run ended, and exit with its exit code",
     "Prints the outcome.json of a run: the reason, the last step, the last saved\n"
     "step, the exit code, the error, and failures that the run survived. DIRECTORY is\n"
     "the checkpoint_dir of a training. --json prints the file.\n",
     1,
     {[OPTION_JSON] = true},
     outcome_command,
     "Exit status: the exit code of the run. 0: complete. 75: interrupted, and the\n"
     "last step is saved; start the program again. 128+n: ended by signal n. 1:\n"
     "failed. 2: the run has not ended, or crashed, or an error occurred.\n"},
    {"verify-resume",
     NULL,
     "[--json] [--steps N] [--middle N] [--fetch NAMES] [--ignore NAMES] [--keep DIR] [--] PROGRAM ...",
     "test that a resumed program continues bit for bit",
     "Trains twice and compares the two runs bit for bit. The first run is not\n"
     "interrupted. The second run is killed in the middle, after a checkpoint was\n"
     "saved, and started again. After one more step it is stopped, as by a signal: the\n"
     "program leaves its loop and closes its session. Then it is started once more. In\n"
     "both runs the first training session of the program (hs_training_session_open)\n"
     "records a checksum of each variable, state and value of the graph after each\n"
     "step. The command prints the first step that differs, and what differs in it: of\n"
     "up to 8 KiB, the first byte or number.\n"
     "\n"
     "If this step follows a restart, the checkpoint lacks something that the step\n"
     "reads. Usually this is\n"
     "  - the state of a random number generator, or the position in the data. Add it\n"
     "    with hs_graph_bytes, or, if it has pointers or open files, with\n"
     "    hs_graph_state;\n"
     "  - an optimizer's moments, or a buffer that is swapped with the memory of a\n"
     "    variable. Add it with hs_graph_variable, or, if its memory moves or is\n"
     "    allocated in a step, with hs_graph_variable_at.\n"
     "Bytes that differ without a restart are usually uninitialized, the padding of a\n"
     "struct (set it to zero with memset first), or a pointer.\n"
     "A value that is not computed in each step may differ without an error: name it\n"
     "in --ignore.\n"
     "State of hooks that depends on times is not compared (HS_HOOK_STATE_VARIES;\n"
     "stop_after, watchdog, rows every N seconds).\n"
     "\n"
     "  --steps N        the last step of both runs, after which the program is\n"
     "                   killed. Default: 20\n"
     "  --middle N       the step of the kill, and the only one to restart from.\n"
     "                   Default: half of --steps; the stop is at the next step\n"
     "  --fetch NAMES    more tensors to compare, separated by commas. Needed for\n"
     "                   tensors of TensorFlow's graphs\n"
     "  --ignore NAMES   what may differ, separated by commas: names as the command\n"
     "                   prints them\n"
     "  --keep DIR       a new or empty directory that keeps the checkpoints, records\n"
     "                   and output (NAME.log) of the runs. Default: a directory in\n"
     "                   $TMPDIR or /tmp that is deleted\n"
     "\n"
     "Your checkpoint_dir and summary_dir are not changed: when the program opens the\n"
     "session, the library uses other directories instead. Files that the program\n"
     "itself writes are written, and so are those of hooks in other directories.\n"
     "There, a checkpoint saver abandons the checkpoints of the real run. Standard\n"
     "input is empty. The program must train --steps steps in one session and one\n"
     "process: MPI programs and workers of a cluster are not supported.\n"
     "\n"
     "--json prints an object: \"same\" (true or false), \"steps\" (number of equal\n"
     "steps), \"resumed_at\", \"step\", \"differences\".\n",
     A_PROGRAM,
     {[OPTION_JSON] = true,
      [OPTION_STEPS] = true,
      [OPTION_MIDDLE] = true,
      [OPTION_FETCH] = true,
      [OPTION_IGNORE] = true,
      [OPTION_KEEP] = true},
     verify_resume,
     NULL},
    {"abi",
     NULL,
     "[--json]",
     "print structs, enums and functions of the library",
     "Prints the declarations in the headers of the library's version, for bindings to\n"
     "other languages: structs with the offset and the size of each field, enums,\n"
     "function types, and functions.\n"
     "\n"
     "--json prints one object:\n"
     "\n"
     "  \"version\"    of the library\n"
     "  \"structs\"    \"name\", \"header\", \"kind\" (struct or union), \"bytes\", \"grows\"\n"
     "               (it begins with its size), and \"fields\": \"name\", \"type\",\n"
     "               \"count\" (of an array), \"offset\", \"bytes\", \"comment\", and\n"
     "               \"default\": what 0 means, as the comment says\n"
     "  \"enums\"      \"name\" (may be null), \"header\", \"constants\": \"name\", \"value\"\n"
     "  \"macros\"     numbers: \"name\", \"header\", \"value\"\n"
     "  \"types\"      \"name\", \"header\", \"declaration\": opaque structs, and types of\n"
     "               functions\n"
     "  \"functions\"  \"name\", \"header\", \"library\", \"returns\", \"parameters\": \"name\",\n"
     "               \"type\"\n",
     0,
     {[OPTION_JSON] = true},
     abi_command,
     no_findings},
    {NULL, NULL, NULL, NULL, NULL, 0, {false}, NULL, NULL},
};

int main(int argc, char **argv)
{
    output_begin();
    return output_end(command_line_run(commands, argc, argv));
}
