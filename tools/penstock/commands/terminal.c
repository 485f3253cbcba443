/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/number.h"

#define MAX_COLUMNS 10000

uint32_t pst_terminal_columns(void)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    int64_t value;

    if (columns != NULL && pst_number_parse_int(columns, &value) && value > 0 &&
        value <= MAX_COLUMNS) {
        return (uint32_t)value;
    }
    if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0) {
        return size.ws_col;
    }
    return 0;
}

uint32_t pst_terminal_width(void)
{
    uint32_t columns = pst_terminal_columns();

    return columns == 0 ? 80 : columns;
}

bool pst_terminal_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL, *charset;

    for (size_t i = 0; i < 3 && (value == NULL || value[0] == '\0'); i++) {
        value = getenv(names[i]);
    }
    charset = value == NULL ? NULL : strchr(value, '.');
    return charset != NULL &&
           (strncasecmp(charset, ".utf-8", 6) == 0 || strncasecmp(charset, ".utf8", 5) == 0);
}
