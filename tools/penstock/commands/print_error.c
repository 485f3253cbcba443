/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/print_error.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

static const char *const *quoted;
static uint32_t n_quoted;

void pst_print_error_quote(const char *const *sets, uint32_t n_sets)
{
    quoted = sets;
    n_quoted = n_sets;
}

/* Where the failure is: "job.toml:3:1: ", or the override itself. */
static void print_place(const struct pst_error *err)
{
    if (strcmp(err->file, "--set") == 0 && err->line > 0 && err->line <= n_quoted) {
        fputs("--set ", stderr);
        pst_text_print_line(stderr, quoted[err->line - 1]);
        fputs(": ", stderr);
        return;
    }
    pst_text_print_line(stderr, err->file);
    fputc(':', stderr);
    if (err->line != 0) {
        fprintf(stderr, "%u:", err->line);
    }
    if (err->column != 0) {
        fprintf(stderr, "%u:", err->column);
    }
    fputc(' ', stderr);
}

/* The lines of the details as an array of strings. */
static void add_details(struct pst_json *json, const char *details)
{
    char line[sizeof((struct pst_error *)NULL)->details];

    pst_json_array(json, "details");
    while (*details != '\0') {
        size_t n = strcspn(details, "\n");

        memcpy(line, details, n);
        line[n] = '\0';
        pst_json_string(json, NULL, line);
        details += n + (details[n] == '\n');
    }
    pst_json_end(json, ']');
}

void pst_error_add_json(struct pst_json *json, const struct pst_error *err)
{
    pst_json_object(json, "error");
    pst_json_error(json, err);
    if (err->file[0] != '\0') {
        pst_json_string(json, "file", err->file);
    }
    if (err->line != 0) {
        pst_json_uint(json, "line", err->line);
    }
    if (err->column != 0) {
        pst_json_uint(json, "column", err->column);
    }
    if (err->details[0] != '\0') {
        add_details(json, err->details);
    }
    pst_json_end(json, '}');
}

/* In room of its own: there may be no other. */
static void print_json(const struct pst_error *err)
{
    static char room[96 << 10];
    struct pst_json json;

    pst_json_init_in(&json, room, sizeof room);
    pst_json_object(&json, NULL);
    pst_error_add_json(&json, err);
    pst_json_end(&json, '}');
    printf("%s\n", pst_json_take(&json));
    fflush(stdout);
}

/* In one piece: processes of a run may fail at the same time. */
static void print_text(const struct pst_error *err, int code)
{
    static char room[16 << 10];

    setvbuf(stderr, room, _IOFBF, sizeof room);
    fputs(code == PST_EXIT_BUG ? "penstock: internal error, please report it: " : "penstock: ",
          stderr);
    if (err->file[0] != '\0') {
        print_place(err);
    }
    pst_text_print_line(stderr, err->message);
    if (err->hint[0] != '\0') {
        size_t n = strlen(err->message);

        fputs(n > 0 && err->message[n - 1] == '?' ? " " : "; ", stderr);
    }
    pst_text_print_line(stderr, err->hint);
    fputc('\n', stderr);
    if (err->details[0] != '\0') {
        pst_text_print(stderr, err->details);
        fputs(err->details[strlen(err->details) - 1] == '\n' ? "" : "\n", stderr);
    }
    fflush(stderr);
    setvbuf(stderr, NULL, _IONBF, 0);
}

int pst_print_error(const struct pst_error *err, bool json)
{
    int code = pst_error_exit_code(err);

    /* An error of writing to standard output is not printed there. */
    bool broken = strncmp(err->message, "cannot write to standard output", 31) == 0;

    fflush(stdout);
    if (json && !broken) {
        print_json(err);
    } else {
        print_text(err, code);
    }
    return code;
}
