/* SPDX-License-Identifier: Apache-2.0 */
/* hooksess: looks at what training wrote, and tries whether it resumes. Written as any program is, against the public
 * headers alone.
 *
 *   main.c              which commands there are
 *   command_line.c      finding the command, its options, help
 *   checkpoint_*.c      a command each
 *   events_*.c          likewise, and events.c, what they share
 *   verify_resume.c, trial.c, record.c
 *                       the trials of a resume; one of them as a process; what two have recorded
 *   open.c, numbers.c   the checkpoint that a name means; the numbers in tensors
 *   output.c, json.c    lines for people, and for programs */
#include "command.h"
#include "output.h"

#include <stddef.h>

/* A command is a row here and a function. */
static const struct command commands[] = {
    {"checkpoint",
     "ls",
     "[--json] PREFIX",
     "the tensors: name, dtype, shape, bytes",
     "Lists the tensors of a checkpoint in the order of their names, one a line: name, dtype, shape, bytes in the file.\n"
     "--json prints one array of {\"name\", \"dtype\", \"shape\"}.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_ls},
    {"checkpoint",
     "stat",
     "[--json] PREFIX",
     "the tensors' numbers: min, max, mean, norm, NaN, ...",
     "Reads every tensor of a checkpoint and prints its number of elements; min, max, mean and L2 norm of those that are\n"
     "finite; and how many are NaN, +infinity, -infinity, zero. Complex numbers have a norm alone, and are NaN or infinite\n"
     "if a part of them is. Of strings it prints how many there are, and the bytes of their text. Totals come last, and the\n"
     "state of hooks and others (\"hooksess/...\") apart.\n",
     1,
     {[OPTION_JSON] = true},
     checkpoint_stat},
    {"checkpoint",
     "verify",
     "PREFIX",
     "is every byte that has a checksum right?",
     "Reads every byte of a checkpoint that carries a checksum: the index, every tensor, the lengths of strings. Prints each\n"
     "tensor that is damaged, or whose data file is missing, with the cause. The exit status is 0 only if all is right.\n",
     1,
     {false},
     checkpoint_verify},
    {"checkpoint",
     "diff",
     "[--json] A B",
     "what differs between two checkpoints",
     "Compares two checkpoints: tensors that only one has, other dtypes and shapes, and where these are the same the elements,\n"
     "bit by bit: how many differ, the first of them, the largest absolute and relative difference (relative to the larger of\n"
     "the two; where only one is NaN or infinite, infinite). Tensors that are equal are only counted.\n",
     2,
     {[OPTION_JSON] = true},
     checkpoint_diff},
    {"checkpoint",
     "convert",
     "FROM TO",
     "a checkpoint to a safetensors file, or back",
     "Makes a safetensors file of a checkpoint, or a checkpoint of a safetensors file: one of the two names ends in\n"
     ".safetensors. All tensors come along, the state of hooks too, each with its dtype, shape and bytes; a tensor that\n"
     "the other format cannot hold, of strings for example (but for what state belongs to), is refused. Left out are the metadata of a safetensors file and\n"
     "the graph of a checkpoint (PREFIX.meta). Checksums are verified where there are some. What is called TO is replaced at\n"
     "one instant; after a failure it is as it was. No checkpoint is made in a directory that training saves to just now.\n",
     2,
     {false},
     checkpoint_convert},
    {"events",
     "ls",
     "[--json] PATH",
     "the files and tags: kinds, counts, steps",
     "Lists event files, with their number of records and their steps, and then the tags that are in them: kind of the values,\n"
     "their number, their steps, the plugin of TensorBoard that they are for. --json prints one object of \"files\", \"events\"\n"
     "(how many there are of each kind) and \"tags\".\n",
     1,
     {[OPTION_JSON] = true},
     events_ls},
    {"events",
     "cat",
     "[--json] [--tag TAG] [--from STEP] [--to STEP] PATH",
     "the events, one value a line",
     "Prints events, a line for each value of a summary: step, time (seconds since 1970), what the event is, tag, kind of the\n"
     "value and its plugin, and the number, where it is one. --tag: only those of a tag, which may be a pattern with * and ?;\n"
     "--from and --to: only those at these steps and between them. --json prints an object a line.\n",
     1,
     {[OPTION_JSON] = true, [OPTION_TAG] = true, [OPTION_FROM] = true, [OPTION_TO] = true},
     events_cat},
    {"events",
     "check",
     "[--json] PATH",
     "is every record right?",
     "Reads every record, and prints where files are damaged: the file, the byte, what is wrong, and how many bytes had to be\n"
     "passed over. A file that ends inside a record (its writer was killed) is called truncated. --json prints one array of\n"
     "{\"file\", \"offset\", \"bytes\", \"truncated\", \"what\"}.\n",
     1,
     {[OPTION_JSON] = true},
     events_check},
    {"events",
     "compact",
     "[--json] {--delete | --output FILE} DIRECTORY",
     "one file of many, without what a restart has made obsolete",
     "Writes one event file of all event files in a directory. Summaries that TensorBoard drops are left out: those at and\n"
     "above the step from which a later run began again. An event that alone tells what a tag is for is kept.\n"
     "--output FILE: writes FILE, in another directory, and changes nothing in DIRECTORY.\n"
     "--delete: writes the file to DIRECTORY, syncs it, and removes the old ones. If an old file is damaged, other than cut at\n"
     "its end, nothing is changed; likewise if a training saves its checkpoints to DIRECTORY, or if a file grows meanwhile.\n"
     "Stop other writers first: events in their memory are not seen. If --delete is interrupted, run it again.\n",
     1,
     {[OPTION_JSON] = true, [OPTION_DELETE] = true, [OPTION_OUTPUT] = true},
     events_compact},
    {"verify-resume",
     NULL,
     "[--json] [--steps N] [--middle N] [--fetch NAMES] [--ignore NAMES] [--keep DIR] [--] PROGRAM ...",
     "does a program that is resumed continue bit for bit?",
     "Trains twice and compares the two runs bit for bit. The first run is not interrupted. The second run is killed in the\n"
     "middle, after a checkpoint was saved, and started again; killed after one more step, and started again. (A program that\n"
     "swaps two buffers is wrong at every second step only.) In both runs the first training session of the program\n"
     "(hs_training_session_open) records a checksum of each variable, of each piece of state and of each value of the graph\n"
     "after each step. The command prints the first step that differs, and what differs in it.\n"
     "\n"
     "If this step follows a restart, the checkpoint lacks something that the step reads. Usually this is\n"
     "  the state of a random number generator, or the position in the data. Add it with hs_graph_bytes, or, if it has\n"
     "  pointers or open files, with hs_graph_state;\n"
     "  an optimizer's moments, or a buffer that is swapped with the memory of a variable. Add it with hs_graph_variable, or,\n"
     "  if its memory moves or is allocated in a step, with hs_graph_variable_at.\n"
     "A value that is not computed in each step keeps its number in one of the runs only: use --ignore.\n"
     "State of hooks that holds times is not compared (HS_HOOK_STATE_VARIES; stop_after, watchdog, rows every N seconds).\n"
     "\n"
     "  --steps N        the last step of both runs. Default: 20. The program is killed there\n"
     "  --middle N       the only step to restart from. Default: half of --steps, and the step after it\n"
     "  --fetch NAMES    more tensors to compare, with commas between them. TensorFlow's graphs have no values of their own\n"
     "  --ignore NAMES   what may differ, with commas between them: names as the command prints them\n"
     "  --keep DIR       a new or empty directory that keeps the checkpoints, records and output (NAME.log) of the runs.\n"
     "                   Default: a directory in $TMPDIR or /tmp that is removed\n"
     "\n"
     "Your checkpoint_dir and summary_dir are not changed: as soon as the program opens the session, the library uses other\n"
     "directories in their place. Files that the program itself writes are written, and so are those of hooks in other\n"
     "directories, where a checkpoint saver abandons the checkpoints of the real run. Standard input is empty. The program must\n"
     "train --steps steps in one session, in one process: MPI programs and workers of a cluster cannot be tried.\n"
     "--json prints an object: \"same\", \"steps\" (how many are the same), \"resumed_at\", \"step\", \"differences\".\n",
     A_PROGRAM,
     {[OPTION_JSON] = true,
      [OPTION_STEPS] = true,
      [OPTION_MIDDLE] = true,
      [OPTION_FETCH] = true,
      [OPTION_IGNORE] = true,
      [OPTION_KEEP] = true},
     verify_resume},
    {NULL, NULL, NULL, NULL, NULL, 0, {false}, NULL},
};

int main(int argc, char **argv)
{
    output_begin();
    return output_end(command_line_run(commands, argc, argv));
}
