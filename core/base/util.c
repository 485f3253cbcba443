/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

uint64_t pst_gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

int pst_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int pst_by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Three significant digits, rounded to the nearest; unit i is 1 / divisors[i] of the value's. */
static char *format_scaled(char *text, double value, const char *const *units, double step,
                           uint32_t n_units)
{
    uint32_t i = 0;
    int digits;

    /* 999.5 would print as 1000: it belongs to the next unit. */
    while (i + 1 < n_units && value >= (step == 1000 ? 999.5 : 1023.5)) {
        value /= step;
        i++;
    }
    digits = i == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(text, 32, "%.*f %s", digits, value, units[i]);
    return text;
}

char *pst_format_ns(char *text, uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};

    return format_scaled(text, (double)ns, units, 1000, 4);
}

char *pst_format_bytes(char *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

    return format_scaled(text, (double)bytes, units, 1024, 6);
}

struct unit {
    const char *name;
    long double scale;
};

static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1e3L},
    {"KB", 1e3L},
    {"MB", 1e6L},
    {"GB", 1e9L},
    {"TB", 1e12L},
    {"KiB", 1024},
    {"MiB", 1024.0L * 1024},
    {"GiB", 1024.0L * 1024 * 1024},
    {"TiB", 1024.0L * 1024 * 1024 * 1024},
};

static const struct unit bit_units[] = {
    {"Mbit", 125e3L},
    {"Gbit", 125e6L},
    {"Tbit", 125e9L},
};

static const struct unit time_units[] = {
    {"", 1e9L},   {"ns", 1},   {"us", 1e3L},   {"\xC2\xB5s", 1e3L}, {"\xCE\xBCs", 1e3L},
    {"ms", 1e6L}, {"s", 1e9L}, {"min", 60e9L}, {"h", 3600e9L},
};

/* `end` stands after each unit. */
static bool parse_unit(const char *text, const struct unit *units, size_t n_units, const char *end,
                       uint64_t *ret)
{
    const char *at = text;
    long double value;

    if (!pst_number_parse_long(text, &at, &value) || value < 0) {
        return false;
    }
    at += strspn(at, " ");
    for (size_t i = 0; i < n_units; i++) {
        const size_t n = strlen(units[i].name);

        if (strncmp(at, units[i].name, n) == 0 && strcmp(at + n, n == 0 ? "" : end) == 0) {
            value = roundl(value * units[i].scale);
            if (!(value < 0x1p64L)) {
                return false;
            }
            *ret = (uint64_t)value;
            return true;
        }
    }
    return false;
}

bool pst_parse_bytes(const char *text, uint64_t *ret_bytes)
{
    return parse_unit(text, byte_units, sizeof byte_units / sizeof *byte_units, "", ret_bytes);
}

bool pst_parse_rate(const char *text, uint64_t *ret_bytes_per_s)
{
    return parse_unit(text, byte_units, sizeof byte_units / sizeof *byte_units, "/s",
                      ret_bytes_per_s) ||
           parse_unit(text, bit_units, sizeof bit_units / sizeof *bit_units, "/s", ret_bytes_per_s);
}

bool pst_parse_time(const char *text, uint64_t *ret_ns)
{
    return parse_unit(text, time_units, sizeof time_units / sizeof *time_units, "", ret_ns);
}

bool pst_file_field(const char *path, const char *key, char *ret_text, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[512];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');

        if (colon != NULL && strncmp(line, key, strlen(key)) == 0) {
            char *value = colon + 1 + strspn(colon + 1, " \t");

            value[strcspn(value, "\n")] = '\0';
            snprintf(ret_text, size, "%s", value);
            found = true;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

uint64_t pst_host_available_bytes(void)
{
    char kib[64];

    return pst_file_field("/proc/meminfo", "MemAvailable", kib, sizeof kib)
               ? strtoull(kib, NULL, 10) * 1024
               : UINT64_MAX;
}

void pst_machine_processor(char *ret_text, size_t size)
{
    if (!pst_file_field("/proc/cpuinfo", "model name", ret_text, size)) {
        snprintf(ret_text, size, "unknown");
    }
}
