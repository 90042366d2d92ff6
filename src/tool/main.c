/* SPDX-License-Identifier: Apache-2.0 */
/* hooksess: looks at what training wrote. Written as any program is, against the public headers alone.
 *
 *   main.c              which commands there are
 *   command_line.c      finding the command, its options, help
 *   checkpoint_*.c      a command each
 *   events_*.c          likewise, and events.c, what they share
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
    {NULL, NULL, NULL, NULL, NULL, 0, {false}, NULL},
};

int main(int argc, char **argv)
{
    output_begin();
    return output_end(command_line_run(commands, argc, argv));
}
