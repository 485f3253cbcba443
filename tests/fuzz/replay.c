/* SPDX-License-Identifier: Apache-2.0
 *
 * Where there is no libFuzzer: one target on every file that is named, or is in a folder that is.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned n_files;

static int replay(const char *path, const struct stat *info, int type, struct FTW *where)
{
    struct pst_error err;
    char *text = NULL;
    size_t length = 0;

    if (type != FTW_F) {
        return 0;
    }
    if (pst_file_read(path, (size_t)1 << 30, "input.path", &text, &length, &err) != PST_OK) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        return 1;
    }
    printf("%s\n", path); /* the last one is the one that failed */
    fflush(stdout);
    LLVMFuzzerTestOneInput((const uint8_t *)text, length);
    free(text);
    n_files++;
    return 0;
}

int main(int argc, char **argv)
{
    int st = 0;

    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; st == 0 && i < argc; i++) {
        st = nftw(argv[i], replay, 16, FTW_PHYS);
        if (st < 0) {
            perror(argv[i]);
        }
    }
    printf("%u files\n", n_files);
    return st == 0 ? 0 : 1;
}
