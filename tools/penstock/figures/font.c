/* SPDX-License-Identifier: Apache-2.0
 *
 * fontconfig ignores failed allocations and crashes then. It is asked in a child process for the
 * files of the font, and nowhere else; FreeType and cairo, which report failures, load them here.
 *
 *     parent:  fork -- waitpid ----------------------- FT_New_Face, cairo
 *     child:        \- FcFontMatch, struct found --/
 */
#include "figures/font.h"

#include <cairo-ft.h>
#include <errno.h>
#include <fontconfig/fontconfig.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

enum { N_FACES = 2 }; /* normal, bold */

/* Written by the child process. */
struct found {
    struct {
        char file[PATH_MAX]; /* "": this machine has no font */
        int index;
        FcBool embolden; /* the font has no bold face */
    } faces[N_FACES];
    char words[4096]; /* what fontconfig prints */
    bool done;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static FT_Library library; /* lives as long as the process, as the faces do */
static cairo_font_face_t *faces[N_FACES];

/* --- in the child process ----------------------------------------------------------------------*/

/* False: out of memory. */
static bool find_face(int weight, char file[PATH_MAX], int *index, FcBool *embolden)
{
    FcPattern *pattern = FcPatternCreate(), *match;
    FcResult result;
    FcChar8 *text;

    if (pattern == NULL || !FcPatternAddString(pattern, FC_FAMILY, (const FcChar8 *)"sans-serif") ||
        !FcPatternAddInteger(pattern, FC_WEIGHT, weight) ||
        !FcConfigSubstitute(NULL, pattern, FcMatchPattern)) {
        return false;
    }
    FcDefaultSubstitute(pattern);
    match = FcFontMatch(NULL, pattern, &result);
    if (match != NULL && FcPatternGetString(match, FC_FILE, 0, &text) == FcResultMatch) {
        snprintf(file, PATH_MAX, "%s", (const char *)text);
        FcPatternGetInteger(match, FC_INDEX, 0, index);
        FcPatternGetBool(match, FC_EMBOLDEN, 0, embolden);
    }
    return result != FcResultOutOfMemory;
}

static void find_faces(struct found *found) __attribute__((noreturn));
static void find_faces(struct found *found)
{
    static const int weights[N_FACES] = {FC_WEIGHT_NORMAL, FC_WEIGHT_BOLD};
    bool done = true;

    /* It goes on without a part of its rules, and says so there alone. */
    stderr = fmemopen(found->words, sizeof found->words, "w");
    if (stderr == NULL) {
        _exit(0);
    }
    errno = 0;
    for (int i = 0; i < N_FACES && done; i++) {
        done = find_face(weights[i], found->faces[i].file, &found->faces[i].index,
                         &found->faces[i].embolden);
    }
    done = done && errno != ENOMEM;
    fflush(stderr);
    found->done = done && strstr(found->words, "out of memory") == NULL;
    _exit(0);
}

/* --- in this process ---------------------------------------------------------------------------*/

static pst_status fail_search(int status, struct pst_error *err)
{
    if (!WIFSIGNALED(status)) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "out of host memory while fontconfig searched the font of figures");
    }
    return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                    "fontconfig crashed with SIG%s while it searched the font of figures, as it "
                    "does when memory runs out",
                    sigabbrev_np(WTERMSIG(status)));
}

static pst_status search(struct found *found, struct pst_error *err)
{
    const pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        find_faces(found);
    }
    if (pid < 0) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "no process can be started that searches the font of figures: %s",
                        strerror(errno));
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return found->done ? PST_OK : fail_search(status, err);
}

/* Without a font in this machine cairo draws its built-in letters. */
static pst_status load_faces(const struct found *found, struct pst_error *err)
{
    FT_Face face = NULL;
    FT_Error code;

    errno = 0;
    code = FT_Init_FreeType(&library);
    for (int i = 0; i < N_FACES && code == 0; i++) {
        const bool none = found->faces[i].file[0] == '\0';

        code = none ? 0 : FT_New_Face(library, found->faces[i].file, found->faces[i].index, &face);
        if (code == 0) {
            faces[i] = none ? cairo_toy_font_face_create("@cairo:", CAIRO_FONT_SLANT_NORMAL,
                                                         i == 0 ? CAIRO_FONT_WEIGHT_NORMAL
                                                                : CAIRO_FONT_WEIGHT_BOLD)
                            : cairo_ft_font_face_create_for_ft_face(face, 0);
        }
        if (code == 0 && found->faces[i].embolden) {
            cairo_ft_font_face_set_synthesize(faces[i], CAIRO_FT_SYNTHESIZE_BOLD);
        }
        pst_heed_no_memory(); /* FreeType goes on without tables that it cannot read */
        if (code != 0 && code != FT_Err_Out_Of_Memory) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                            "%s, the font of figures, cannot be loaded: error %d of FreeType",
                            found->faces[i].file, code);
        }
    }
    if (code != 0) {
        pst_out_of_memory();
    }
    return PST_OK;
}

pst_status pst_font_load(struct pst_error *err)
{
    pst_status status = PST_OK;

    pthread_mutex_lock(&mutex);
    if (faces[N_FACES - 1] == NULL) {
        struct found *found =
            mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (found == MAP_FAILED) {
            pst_out_of_memory();
        }
        status = search(found, err);
        PST_TRY(status, load_faces(found, err));
        munmap(found, sizeof *found);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

cairo_font_face_t *pst_font_face(bool bold)
{
    return faces[bold];
}
