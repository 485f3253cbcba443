/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder for the files of a test, and one way to compare faults.
 */
#ifndef CONFIG_SUPPORT_H
#define CONFIG_SUPPORT_H

#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

static char folder[64];

static inline int make_folder(void **state)
{
    strcpy(folder, "/tmp/penstock-config-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static inline int remove_folder(void **state)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* The path of a file of the test; good until the eighth call from here. */
static inline const char *in_folder(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%.100s", folder, name);
    return path;
}

static inline void write_bytes(const char *name, const char *text, size_t n)
{
    FILE *file = fopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static inline void expect_fault(const struct pst_error *err, const char *kind, const char *file,
                                uint32_t line, uint32_t column, const char *message)
{
    assert_string_equal(err->message, message);
    assert_string_equal(err->kind, kind);
    assert_string_equal(err->file, file);
    assert_int_equal(err->line, line);
    assert_int_equal(err->column, column);
    assert_int_equal(err->status, PST_ERR_CONFIG);
    assert_int_equal(pst_error_exit_code(err), 2);
}

static inline struct pst_config *parse_ok(const char *text)
{
    struct pst_config *config = NULL;
    struct pst_error err;

    if (pst_config_parse(text, strlen(text), "t.toml", &config, &err) != PST_OK) {
        fail_msg("%u:%u: %s", err.line, err.column, err.message);
    }
    return config;
}

static inline void expect_json(const struct pst_config *config, const char *json)
{
    char *text = pst_config_to_json(config);

    assert_non_null(text);
    assert_string_equal(text, json);
    free(text);
}

#endif
