/* SPDX-License-Identifier: Apache-2.0 */
#include "host/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

extern char **environ;

/* free() it; its words are others'. */
static const char **make_environment(const char *word)
{
    size_t name = strcspn(word, "=") + 1, n = 0, k = 0;
    const char **words;

    while (environ != NULL && environ[n] != NULL) {
        n++;
    }
    words = pst_alloc(n + 2, sizeof *words);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], word, name) != 0) {
            words[k++] = environ[i];
        }
    }
    words[k++] = word;
    words[k] = NULL;
    return words;
}

static int set_up(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
                  const struct pst_spawn_move *moves, size_t n_moves, int first_free)
{
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none, all;
    int code = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);

    for (size_t i = 0; code == 0 && i < n_moves; i++) {
        code = posix_spawn_file_actions_adddup2(actions, moves[i].from, moves[i].to);
    }
    code = code != 0 ? code : posix_spawn_file_actions_addclosefrom_np(actions, first_free);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(attributes, flags);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    return code;
}

int pst_spawn(const char *program, char *const *argv, const char *word,
              const struct pst_spawn_move *moves, size_t n_moves, int first_free, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    const char **words;
    int code = posix_spawn_file_actions_init(&actions);

    if (code != 0) {
        return code;
    }
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        words = make_environment(word);
        code = set_up(&actions, &attributes, moves, n_moves, first_free);
        if (code == 0) {
            code = posix_spawn(ret_pid, program, &actions, &attributes, argv,
                               (char *const *)(uintptr_t)words);
        }
        free(words);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}
