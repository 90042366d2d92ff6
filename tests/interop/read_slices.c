/* SPDX-License-Identifier: Apache-2.0 */
/* read_slices PREFIX DIRECTORY: reads parts of tensors. Each line of the standard input describes a part: the name, the
 * start of the part along each dimension, its lengths, and its number of bytes. Starts and lengths are numbers, each
 * followed by a comma; "-" means no dimensions. Prints the result of each read. The bytes of line N go to the file
 * DIRECTORY/N. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>

static void read_numbers(const char *text, int64_t numbers[HS_MAX_RANK])
{
    char *end;
    for (int i = 0; i < HS_MAX_RANK && *text && *text != '-'; i++, text = end + 1)
        numbers[i] = strtoll(text, &end, 10);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *to = fopen(path, "wb");
    if (!to || fwrite(data, 1, bytes, to) != bytes || fclose(to) != 0)
        abort();
}

int main(int argc, char **argv)
{
    hs_error err = {0};
    if (argc < 3)
        return 2;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, argv[1], &err);
    if (!reader) {
        fprintf(stderr, "%s: %s\n", hs_code_name(err.code), err.message);
        return 1;
    }
    char name[256], starts_text[256], lengths_text[256];
    size_t bytes;
    for (int n = 0; scanf("%255s %255s %255s %zu", name, starts_text, lengths_text, &bytes) == 4; n++) {
        char path[4096], *data = malloc(bytes + 1);
        int64_t starts[HS_MAX_RANK] = {0}, lengths[HS_MAX_RANK] = {0};
        if (!data)
            abort();
        read_numbers(starts_text, starts);
        read_numbers(lengths_text, lengths);
        hs_code code = hs_checkpoint_read_slice(reader, name, starts, lengths, data, bytes, &err);
        printf("%s %s\n", hs_code_name(code), err.message);
        snprintf(path, sizeof path, "%s/%d", argv[2], n);
        write_file(path, data, code ? 0 : bytes);
        free(data);
    }
    hs_checkpoint_close(reader);
    return 0;
}
