/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <locale.h>
#include <math.h>

#include "base/number.h"
#include "base/util.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

TEST(clock_never_goes_back)
{
    uint64_t last = pst_now_ns();

    for (int i = 0; i < 1000; i++) {
        uint64_t now = pst_now_ns();

        assert_true(now >= last);
        last = now;
    }
}

TEST(times_for_people)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0 ns"},
        {999, "999 ns"},
        {1000, "1.00 us"},
        {812345, "812 us"},
        {999499, "999 us"},
        {999500, "1.00 ms"},
        {1420000, "1.42 ms"},
        {15200000, "15.2 ms"},
        {3100000000u, "3.10 s"},
        {9994000, "9.99 ms"},
        {9996000, "10.0 ms"},
        {7200000000000u, "7200 s"},
        {UINT64_MAX, "18446744074 s"},
    };
    char text[32];

    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(pst_format_ns(text, cases[i].ns), cases[i].text);
    }
}

TEST(bytes_for_people)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {15938355, "15.2 MiB"}, /* 15.2 x 2^20 */
        {1047552, "1023 KiB"},
        {1048575, "1.00 MiB"},
        {1ull << 40, "1.00 TiB"},
        {UINT64_MAX, "16384 PiB"},
    };
    char text[32];

    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(pst_format_bytes(text, cases[i].bytes), cases[i].text);
    }
}

typedef bool parse_fn(const char *text, uint64_t *ret);

struct parsed {
    parse_fn *parse;
    const char *text;
    uint64_t value;
};

TEST(units_that_are_right)
{
    static const struct parsed cases[] = {
        {pst_parse_bytes, "0", 0},
        {pst_parse_bytes, "16 GiB", 16ull << 30},
        {pst_parse_bytes, "16GiB", 16ull << 30},
        {pst_parse_bytes, "1.5 KiB", 1536},
        {pst_parse_bytes, "900 MB", 900000000},
        {pst_parse_bytes, "1 kB", 1000},
        {pst_parse_bytes, "1 KB", 1000},
        {pst_parse_bytes, "7 B", 7},
        {pst_parse_bytes, "2 TiB", 2ull << 40},
        {pst_parse_bytes, "1e9", 1000000000},
        {pst_parse_bytes, "18446744073709551615", UINT64_MAX},
        {pst_parse_bytes, "9007199254740993", 9007199254740993}, /* 2^53 + 1 */
        {pst_parse_rate, "900 MB/s", 900000000},
        {pst_parse_rate, "8e9", 8000000000},
        {pst_parse_rate, "100 Gbit/s", 12500000000},
        {pst_parse_rate, "1 GiB/s", 1ull << 30},
        {pst_parse_time, "5 us", 5000},
        {pst_parse_time, "5 \xC2\xB5s", 5000},
        {pst_parse_time, "1.5 ms", 1500000},
        {pst_parse_time, "0.1 us", 100},
        {pst_parse_time, "10 min", 600000000000},
        {pst_parse_time, "1 h", 3600000000000},
        {pst_parse_time, "2", 2000000000},
        {pst_parse_time, "1e-6", 1000},
        {pst_parse_time, "3 ns", 3},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t value = 12345;

        if (!cases[i].parse(cases[i].text, &value)) {
            fail_msg("refused: %s", cases[i].text);
        }
        assert_true(value == cases[i].value);
    }
}

TEST(units_that_are_wrong)
{
    static const struct parsed cases[] = {
        {pst_parse_bytes, "", 0},
        {pst_parse_bytes, "GiB", 0},
        {pst_parse_bytes, "-1", 0},
        {pst_parse_bytes, "-1 KiB", 0},
        {pst_parse_bytes, "16 GiBs", 0},
        {pst_parse_bytes, "16 gib", 0},
        {pst_parse_bytes, "16 G", 0},
        {pst_parse_bytes, "1 MB/s", 0},
        {pst_parse_bytes, "inf", 0},
        {pst_parse_bytes, "nan", 0},
        {pst_parse_bytes, "0x10", 0},
        {pst_parse_bytes, " 1", 0},
        {pst_parse_bytes, "1 ", 1},
        {pst_parse_bytes, "1 2", 0},
        {pst_parse_bytes, "18446744073709551616", 0},
        {pst_parse_bytes, "1e30", 0},
        {pst_parse_bytes, "20000000 TiB", 0},
        {pst_parse_rate, "900 MB", 0},
        {pst_parse_rate, "5 s", 0},
        {pst_parse_time, "5 m", 0},
        {pst_parse_time, "5 MB", 0},
        {pst_parse_time, "5us/s", 0},
        {pst_parse_time, "-5 us", 0},
        {pst_parse_time, "1e12", 0}, /* 10^21 ns */
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t value = 12345;
        bool ok = cases[i].parse(cases[i].text, &value);

        if (cases[i].value != 0) { /* a trailing blank is harmless */
            assert_true(ok && value == cases[i].value);
            continue;
        }
        if (ok) {
            fail_msg("accepted: \"%s\"", cases[i].text);
        }
        assert_true(value == 12345);
    }
}

TEST(numbers_and_their_ends)
{
    const char *end = NULL;
    double value = 0;
    int64_t integer = 0;

    assert_true(pst_number_parse("1.5e3x", &end, &value));
    assert_true(value == 1500 && *end == 'x');
    assert_true(pst_number_parse("-.5", &end, &value) && value == -0.5);
    assert_false(pst_number_parse("1e999", &end, &value));
    assert_false(pst_number_parse("e3", &end, &value));
    assert_false(pst_number_parse("0x1p3", &end, &value));
    assert_false(pst_number_parse("infinity", &end, &value));
    assert_true(pst_number_parse_int("-9223372036854775808", &integer) && integer == INT64_MIN);
    assert_false(pst_number_parse_int("9223372036854775808", &integer));
    assert_false(pst_number_parse_int("1.0", &integer));
    assert_false(pst_number_parse_int("12a", &integer));
    assert_false(pst_number_parse_int("", &integer));
}

/* A German locale, compiled for the test: its decimal point is a comma. */
TEST(numbers_that_are_not_finite_have_a_text)
{
    char text[32];

    assert_string_equal(pst_number_format(text, INFINITY), "inf");
    assert_string_equal(pst_number_format(text, -INFINITY), "-inf");
    assert_string_equal(pst_number_format(text, (double)NAN), "nan");
    assert_string_equal(pst_number_format_to(text, INFINITY, 3), "inf");
    assert_string_equal(pst_number_format_to(text, (double)NAN, 3), "nan");
    assert_string_equal(pst_number_format_figure(text, -INFINITY), "-inf");
}

TEST(numbers_ignore_the_locale)
{
    char folder[] = "/tmp/penstock-locale-XXXXXX", command[256], text[32];
    const char *end = NULL;
    uint64_t ns = 0;
    double value = 0;
    bool german;

    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.utf8 >/dev/null 2>&1",
             folder);
    setenv("LOCPATH", folder, 1);
    german = system(command) == 0 && setlocale(LC_ALL, "de_DE.utf8") != NULL;
    if (german) {
        char plain[16];

        snprintf(plain, sizeof plain, "%.1f", 0.5);
        assert_string_equal(plain, "0,5"); /* the locale is in force */
        assert_string_equal(pst_number_format(text, 0.5), "0.5");
        assert_true(pst_number_parse("0.25", &end, &value) && value == 0.25 && *end == '\0');
        assert_true(pst_parse_time("1.5 us", &ns) && ns == 1500);
        setlocale(LC_ALL, "C");
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    unsetenv("LOCPATH");
    if (!german) {
        skip();
    }
}
