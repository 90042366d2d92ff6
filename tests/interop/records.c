/* SPDX-License-Identifier: Apache-2.0 */
/* records write PATH COMPRESSION: writes a file of records. Each line of standard input is a record in hexadecimal.
 * records read PATH COMPRESSION: prints the records as such lines, and then the result of the last read. */
#include <hooksess/records.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hs_error err;

static int fail(void)
{
    fprintf(stderr, "%s\n", err.message);
    return 1;
}

static int write_records(const char *path, hs_record_compression compression)
{
    static char line[1 << 20];
    static unsigned char data[sizeof line / 2];
    hs_record_writer_options options = HS_INIT(hs_record_writer_options, .compression = compression);
    hs_record_writer *writer = hs_record_writer_open(path, &options, &err);
    hs_code code = err.code;
    while (!code && fgets(line, sizeof line, stdin)) {
        size_t bytes = strcspn(line, "\n") / 2;
        for (size_t i = 0; i < bytes; i++) {
            const char digits[3] = {line[2 * i], line[2 * i + 1], '\0'};
            data[i] = (unsigned char)strtoul(digits, NULL, 16);
        }
        code = hs_record_writer_write(writer, data, bytes, &err);
    }
    if (!code)
        code = hs_record_writer_close(writer, &err);
    hs_record_writer_free(writer);
    return code ? fail() : 0;
}

static int read_records(const char *path, hs_record_compression compression)
{
    hs_record_reader_options options = HS_INIT(hs_record_reader_options, .compression = compression);
    hs_record_reader *reader = hs_record_reader_open(path, &options, &err);
    hs_bytes record;
    if (!reader)
        return fail();
    while (hs_record_reader_next(reader, &record, &err) == HS_OK) {
        for (size_t i = 0; i < record.size; i++)
            printf("%02x", ((const unsigned char *)record.data)[i]);
        puts("");
    }
    puts(hs_code_name(err.code));
    hs_record_reader_free(reader);
    return 0;
}

int main(int argc, char **argv)
{
    hs_record_compression compression;
    if (argc != 4)
        return 2;
    if (hs_record_compression_named(argv[3], &compression, &err))
        return fail();
    return (strcmp(argv[1], "write") == 0 ? write_records : read_records)(argv[2], compression);
}
