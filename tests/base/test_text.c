/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/text.h"

static void text_that_fits_is_appended(void **state)
{
    char text[8] = "a";
    (void)state;
    hs__append(text, sizeof text, "%d", 23);
    hs__append(text, sizeof text, "%s", "size");
    assert_string_equal(text, "a23size");
    hs__append(text, sizeof text, "x");
    assert_string_equal(text, "a23size");
    hs__append(text, 0, "x");
    assert_string_equal(text, "a23size");
}

/* The character fits only if the array has room for all of it. */
static void text_is_cut_between_characters(void **state)
{
    static const char *const characters[] = {"x", "\xc3\xb6", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    char text[12];
    (void)state;
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++)
        for (size_t size = 4; size < sizeof text; size++) {
            strcpy(text, "ab");
            hs__append(text, size, "%s%s", characters[i], "...");
            size_t length = strlen(text), all = 2 + strlen(characters[i]);
            assert_true(length == (size > all ? size - 1 < all + 3 ? size - 1 : all + 3 : 2));
            assert_true(hs__is_utf8(text, length));
        }
}

static void bytes_that_are_not_utf8_stay(void **state)
{
    char text[8] = "a";
    (void)state;
    hs__append(text, sizeof text, "%s", "\x80\x81\x82\x83\x84\x85\x86\x87");
    assert_string_equal(text, "a\x80\x81\x82\x83\x84\x85");
}

static void a_list_has_commas_between_its_items(void **state)
{
    char list[64] = "";
    (void)state;
    for (int i = 1; i <= 3; i++)
        hs__append_item(list, sizeof list, "'%c' = %g", 'a' + i, i / 2.0);
    assert_string_equal(list, "'b' = 0.5, 'c' = 1, 'd' = 1.5");
}

static void a_list_that_is_too_long_says_so(void **state)
{
    char list[32] = "";
    (void)state;
    for (int i = 1000; i <= 1009; i++)
        hs__append_item(list, sizeof list, "%d", i);
    hs__append_item(list, sizeof list, "1");
    assert_string_equal(list, "1000, 1001, 1002, 1003, ...");
    list[0] = '\0';
    for (int i = 0; i < 2; i++)
        hs__append_item(list, sizeof list, "%s", "a name that is longer than the list");
    assert_string_equal(list, "...");
}

/* Whatever the size is: no byte behind it changes. */
static void no_list_is_longer_than_its_array(void **state)
{
    char list[40];
    (void)state;
    for (size_t size = 12; size < sizeof list; size++) {
        memset(list, '#', sizeof list);
        list[0] = '\0';
        for (int i = 0; i < 20; i++)
            hs__append_item(list, size, "%.*s", i % 7, "1234567");
        assert_true(strlen(list) < size);
        assert_string_equal(list + strlen(list) - 3, "...");
        assert_int_equal(list[size], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_fits_is_appended),      cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(bytes_that_are_not_utf8_stay),    cmocka_unit_test(a_list_has_commas_between_its_items),
        cmocka_unit_test(a_list_that_is_too_long_says_so), cmocka_unit_test(no_list_is_longer_than_its_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
