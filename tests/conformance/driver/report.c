// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    const char *name;
    char *text;
    double seconds;
    enum verdict verdict;
};

static struct {
    enum format format;
    const struct subject *subject;
    struct entry *entries;
    size_t count;
    size_t verdicts[VERDICTS];
} report;

static const char *const words[VERDICTS] = {"ok", "FAILED", "known", "FAILED", "skipped"};

void report_begin(enum format format, const struct subject *subject, size_t total)
{
    report.format = format;
    report.subject = subject;
    report.entries = allocated(calloc(total, sizeof(*report.entries)));
    if (format == FORMAT_JUNIT)
        return;
    if (format == FORMAT_TAP)
        printf("TAP version 13\n1..%zu\n", total);
    const char *mark = format == FORMAT_TAP ? "# " : "";
    printf("%slibrary: %s\n%sdevice: %s\n", mark, subject->library, mark, subject->device);
}

static enum verdict verdict_of(const struct result *result, bool listed)
{
    switch (result->outcome) {
    case PASSED:
        return listed ? LISTED_BUT_CONFORMS : CONFORMS;
    case SKIPPED:
        return NOT_JUDGED;
    default:
        return listed ? DEVIATES_AS_LISTED : DEVIATES;
    }
}

static char *explain(enum verdict verdict, const struct result *result, const char *reason)
{
    char *text = NULL;
    int length = 0;
    if (verdict == DEVIATES_AS_LISTED)
        length = asprintf(&text, "%s (%s)", reason, result->text);
    else if (verdict == LISTED_BUT_CONFORMS)
        length = asprintf(&text, "passes although it is listed as a deviation: %s", reason);
    else
        text = strdup(result->text);
    return allocated(length < 0 ? NULL : text);
}

static void print_tap(const struct entry *entry)
{
    bool ok = entry->verdict == CONFORMS || entry->verdict == NOT_JUDGED;
    printf("%sok %zu - %s", ok ? "" : "not ", report.count, entry->name);
    if (entry->verdict == NOT_JUDGED)
        printf(" # SKIP %s", entry->text);
    else if (entry->verdict == DEVIATES_AS_LISTED)
        printf(" # TODO %s", entry->text);
    else if (!ok)
        printf("\n# %s", entry->text);
    putchar('\n');
}

void report_case(const char *name, const struct result *result, const char *reason)
{
    struct entry *entry = &report.entries[report.count++];
    entry->name = name;
    entry->seconds = result->seconds;
    entry->verdict = verdict_of(result, reason != NULL);
    entry->text = explain(entry->verdict, result, reason);
    ++report.verdicts[entry->verdict];
    if (report.format == FORMAT_TAP)
        print_tap(entry);
    else if (report.format == FORMAT_TEXT)
        printf("%-7s  %s%s%s\n", words[entry->verdict], entry->name, *entry->text ? ": " : "", entry->text);
    fflush(stdout);
}

/* XML 1.0 cannot represent most control characters. */
static void print_escaped(const char *text)
{
    static const char special[] = "<>&\"";
    static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
    for (; *text; ++text) {
        const char *at = strchr(special, *text);
        if (at)
            fputs(entities[at - special], stdout);
        else
            putchar((unsigned char)*text < 0x20 ? ' ' : *text);
    }
}

static void print_property(const char *name, const char *value)
{
    printf("    <property name=\"%s\" value=\"", name);
    print_escaped(value);
    puts("\"/>");
}

static void print_junit_case(const struct entry *entry)
{
    const char *dot = strchr(entry->name, '.');
    printf("  <testcase classname=\"%.*s\" name=\"%s\" time=\"%.3f\"", (int)(dot - entry->name), entry->name, dot + 1,
            entry->seconds);
    if (entry->verdict == CONFORMS) {
        puts("/>");
        return;
    }
    bool skipped = entry->verdict == NOT_JUDGED || entry->verdict == DEVIATES_AS_LISTED;
    printf("><%s message=\"", skipped ? "skipped" : "failure");
    if (entry->verdict == DEVIATES_AS_LISTED)
        fputs("known deviation: ", stdout);
    print_escaped(entry->text);
    puts("\"/></testcase>");
}

static void print_junit(void)
{
    puts("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    printf("<testsuite name=\"rpma-conformance\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
            report.count, report.verdicts[DEVIATES] + report.verdicts[LISTED_BUT_CONFORMS],
            report.verdicts[NOT_JUDGED] + report.verdicts[DEVIATES_AS_LISTED]);
    puts("  <properties>");
    print_property("library", report.subject->library);
    print_property("device", report.subject->device);
    puts("  </properties>");
    for (size_t i = 0; i < report.count; ++i)
        print_junit_case(&report.entries[i]);
    puts("</testsuite>");
}

static void print_summary(void)
{
    printf("%s%zu cases: %zu conform, %zu deviate, %zu deviate as listed, %zu are listed but conform, %zu skipped\n",
            report.format == FORMAT_TAP ? "# " : "", report.count, report.verdicts[CONFORMS], report.verdicts[DEVIATES],
            report.verdicts[DEVIATES_AS_LISTED], report.verdicts[LISTED_BUT_CONFORMS], report.verdicts[NOT_JUDGED]);
}

bool report_end(void)
{
    if (report.format == FORMAT_JUNIT)
        print_junit();
    else
        print_summary();
    return report.verdicts[DEVIATES] == 0 && report.verdicts[LISTED_BUT_CONFORMS] == 0;
}
