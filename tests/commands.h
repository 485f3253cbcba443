/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that run the program many times, some at once. Include cmocka and support.h before.
 */
#ifndef PENSTOCK_TESTS_COMMANDS_H
#define PENSTOCK_TESTS_COMMANDS_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

struct command {
    const char *args[SUPPORT_ARGUMENTS + 1];
    uint32_t n_args;
    struct outcome outcome;
    pid_t pid;
    int out, err;
};

static inline void add_args(struct command *command, const char *const *args)
{
    for (; *args != NULL; args++) {
        assert_true(command->n_args < SUPPORT_ARGUMENTS);
        command->args[command->n_args++] = *args;
    }
}

static inline void end_command(struct command *command)
{
    command->outcome.code = support_wait(command->pid);
    command->outcome.out = support_drain(command->out);
    command->outcome.err = support_drain(command->err);
    expect_code(&command->outcome, 0);
}

/* The oldest is waited for, so the others overlap with it; all must end well. */
static inline void run_commands(struct command *commands, uint32_t n, uint32_t at_once)
{
    for (uint32_t started = 0, ended = 0; ended < n;) {
        if (started < n && started - ended < at_once) {
            struct command *command = &commands[started++];

            command->out = memfd_create("out", MFD_CLOEXEC);
            command->err = memfd_create("err", MFD_CLOEXEC);
            assert_true(command->out >= 0 && command->err >= 0);
            command->pid = support_spawn(command->args, command->out, command->err);
        } else {
            end_command(&commands[ended++]);
        }
    }
}

/* n commands without arguments; free() them. */
static inline struct command *make_commands(uint32_t n)
{
    struct command *commands = calloc(n, sizeof *commands);

    assert_non_null(commands);
    return commands;
}

/* The one JSON value of a standard output. */
static inline json_t *only_line(const struct outcome *outcome)
{
    json_t *object = json_loads(outcome->out, 0, NULL);

    if (object == NULL) {
        fail_msg("no JSON:\n%.500s\n%s", outcome->out, outcome->err);
    }
    return object;
}

#endif
