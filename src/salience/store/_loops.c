/* The loops of a recall that NumPy needs many steps for: see loops.py, which has the same in NumPy and says what each
 * returns. Memory is the caller's: each function reads columns and fills others, which are checked for their type and
 * their length, and returns how much of them it filled. Long ones let other threads run meanwhile. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

#define AHEAD 16 /* rows that are brought near before they are read */
#define MOST_ARGUMENTS 24
#define LONG 50000 /* values from which on a loop lets other threads run: to get the turn back may take long */
#define OWN 2      /* as batch.OWN */

/* ---- Columns ---- */

typedef struct {
    Py_buffer views[MOST_ARGUMENTS];
    double numbers[MOST_ARGUMENTS];
    int count;
} Arguments;

static void release(Arguments *all)
{
    while (all->count-- > 0)
        if (all->views[all->count].obj != NULL)
            PyBuffer_Release(&all->views[all->count]);
}

static int is_of(const Py_buffer *view, char kind)
{
    const char *format = view->format != NULL ? view->format : "B";
    if (kind == 'q') /* int64 is `l` here and `q` there */
        return view->itemsize == 8 && (*format == 'l' || *format == 'q');
    return format[0] == kind && format[1] == '\0';
}

/* Read the arguments as `kinds` says: `n` a number, else a column of the type that a buffer's format has by that letter
 * (`q` for int64); after it, `!` for one that is filled, `~` for one that may be None. */
static int read_all(Arguments *all, PyObject *const *given, Py_ssize_t count, const char *kinds)
{
    all->count = 0;
    for (; *kinds; kinds++) {
        const char kind = *kinds;
        const char mark = kinds[1] == '!' || kinds[1] == '~' ? *++kinds : ' ';
        const int place = all->count;
        if (place >= count) {
            PyErr_Format(PyExc_TypeError, "%zd arguments are too few", count);
            goto failed;
        }
        Py_buffer *view = &all->views[place];
        memset(view, 0, sizeof *view);
        all->count++;
        if (kind == 'n') {
            all->numbers[place] = PyFloat_AsDouble(given[place]);
            if (PyErr_Occurred())
                goto failed;
        } else if (mark != '~' || given[place] != Py_None) {
            if (PyObject_GetBuffer(given[place], view,
                                   PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (mark == '!' ? PyBUF_WRITABLE : 0)) < 0)
                goto failed;
            if (!is_of(view, kind)) {
                PyErr_Format(PyExc_TypeError, "argument %d: a column of the type '%c' is needed", place, kind);
                goto failed;
            }
        }
    }
    if (all->count == count)
        return 0;
    PyErr_Format(PyExc_TypeError, "%zd arguments are too many", count);
failed:
    release(all);
    return -1;
}

/* Read the first arguments likewise; `group` of the others after them belong together each time. */
static int read_some(Arguments *all, PyObject *const *given, Py_ssize_t count, int first, int group, const char *kinds)
{
    if (count > first && (count - first) % group) {
        PyErr_Format(PyExc_TypeError, "%zd arguments are not %d and groups of %d", count, first, group);
        return -1;
    }
    return read_all(all, given, count < first ? count : first, kinds);
}

#define DATA(place) (all.views[place].buf)
#define NUMBER(place) (all.numbers[place])

static int64_t size(const Arguments *all, int place)
{
    return all->views[place].obj == NULL ? 0 : all->views[place].len / all->views[place].itemsize;
}

/* Refuse columns that are not as long as they must be; those that are None are. */
static int lengths(Arguments *all, const int *places, int64_t wanted)
{
    for (; *places >= 0; places++)
        if (all->views[*places].obj != NULL && size(all, *places) < wanted) {
            PyErr_Format(PyExc_ValueError, "argument %d: a column of at least %lld is needed", *places,
                         (long long)wanted);
            release(all);
            return -1;
        }
    return 0;
}

#define AT_LEAST(wanted, ...) lengths(&all, (const int[]){__VA_ARGS__, -1}, wanted)

static int within(Arguments *all, const int64_t *numbers, int64_t count, int64_t end)
{
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] < 0 || numbers[i] >= end) {
            PyErr_Format(PyExc_IndexError, "%lld is not in [0, %lld)", (long long)numbers[i], (long long)end);
            release(all);
            return -1;
        }
    return 0;
}

static PyThreadState *let_others(int64_t work)
{
    return work > LONG ? PyEval_SaveThread() : NULL;
}

static PyObject *done(Arguments *all, PyThreadState *state, int64_t found)
{
    if (state != NULL)
        PyEval_RestoreThread(state);
    release(all);
    return PyLong_FromLongLong(found);
}

static PyObject *no_memory(Arguments *all)
{
    release(all);
    return PyErr_NoMemory();
}

/* ---- A set of places, and the rank of each in it ---- */

typedef struct {
    uint64_t *words;
    int64_t count;
} Places;

static int make_places(Places *set, int64_t end)
{
    set->count = (end + 63) / 64;
    set->words = calloc((size_t)(set->count + 1), sizeof *set->words);
    return set->words == NULL ? -1 : 0;
}

static inline void put(Places *set, int64_t place)
{
    set->words[place >> 6] |= (uint64_t)1 << (place & 63);
}

#define EACH(place, set)                                                                                               \
    for (int64_t word_ = 0; word_ < (set).count; word_++)                                                              \
        for (uint64_t left_ = (set).words[word_]; left_; left_ &= left_ - 1)                                           \
            for (int64_t place = word_ * 64 + __builtin_ctzll(left_), once_ = 1; once_; once_ = 0)

#define BLOCK 64

/* Return which of 64 bytes, 0 or 1 each, are 1: the first one is the lowest bit. */
static inline uint64_t bits(const uint8_t *flags)
{
    uint64_t found = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (int i = 0; i < BLOCK; i += 8) {
        uint64_t eight;
        memcpy(&eight, flags + i, sizeof eight);
        found |= eight * 0x0102040810204080u >> 56 << i;
    }
#else
    for (int i = 0; i < BLOCK; i++)
        found |= (uint64_t)flags[i] << i;
#endif
    return found;
}

#define EACH_BIT(bit, of) for (uint64_t bit, left_ = (of); left_ && (bit = __builtin_ctzll(left_), 1); left_ &= left_ - 1)

/* ---- scan ---- */

/* Have a row brought near the processor, which of itself looks no further ahead than a page of memory. */
static inline void fetch(const int8_t *row, int64_t dimension)
{
    for (int64_t j = 0; j < dimension; j += 64)
        PREFETCH(row + j);
}

WIDE static void scan_rows(const int8_t *rows, const int64_t *slots, const float *steps, const int16_t *query,
                           float step, int64_t count, int64_t dimension, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t slot = slots != NULL ? slots[i] : i;
        const int8_t *row = rows + slot * dimension;
        const int64_t later = i + AHEAD < count ? i + AHEAD : i;
        fetch(rows + (slots != NULL ? slots[later] : later) * dimension, dimension);
        int32_t sum = 0;
        for (int64_t j = 0; j < dimension; j++)
            sum += (int32_t)(int16_t)row[j] * (int32_t)query[j];
        out[i] = (float)sum * steps[slot] * step;
    }
}

/* Write a query as whole numbers up to `largest` of steps; return the size of a step, and how far they are from it. */
static float quantise(const float *query, int64_t dimension, double largest, int16_t *numbers, double *error)
{
    float most = 0;
    double rest = 0;
    for (int64_t j = 0; j < dimension; j++)
        most = fmaxf(most, fabsf(query[j]));
    const float step = most > 0 ? (float)(most / largest) : 1.0f;
    for (int64_t j = 0; j < dimension; j++) {
        const float number = rintf(query[j] / step), off = number * step - query[j];
        numbers[j] = (int16_t)number;
        rest += (double)off * off;
    }
    *error = sqrt(rest);
    return step;
}

static PyObject *scan(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { ROWS, SLOTS, STEPS, QUERY, LARGEST, OUT };
    Arguments all;
    if (read_all(&all, given, count, "bq~ffnf!") < 0)
        return NULL;
    const int64_t dimension = size(&all, QUERY), wanted = size(&all, OUT);
    const int64_t held = dimension ? size(&all, ROWS) / dimension : 0;
    if (AT_LEAST(held, STEPS) < 0 || AT_LEAST(wanted, SLOTS) < 0)
        return NULL;
    if (DATA(SLOTS) != NULL) {
        if (within(&all, DATA(SLOTS), wanted, held) < 0)
            return NULL;
    } else if (AT_LEAST(wanted * dimension, ROWS) < 0)
        return NULL;
    int16_t *numbers = malloc((size_t)(dimension + 1) * sizeof *numbers);
    if (numbers == NULL)
        return no_memory(&all);
    PyThreadState *state = let_others(wanted * dimension / 8);
    double error;
    const float step = quantise(DATA(QUERY), dimension, NUMBER(LARGEST), numbers, &error);
    scan_rows(DATA(ROWS), DATA(SLOTS), DATA(STEPS), numbers, step, wanted, dimension, DATA(OUT));
    free(numbers);
    if (state != NULL)
        PyEval_RestoreThread(state);
    release(&all);
    return PyFloat_FromDouble(error);
}

/* ---- occurrences ---- */

typedef struct {
    const int64_t *places;
    const float *counts;
    int64_t count;
    const int32_t *around;
    int64_t width;
} Texts;

/* Fill where one term stands, by place: how often in each text and window; return in how many windows. */
static int64_t one_term(Texts texts, Places seen, int32_t *ranks, int32_t *places, float *own, float *windows,
                        int64_t *held)
{
    int64_t found = 0;
    memset(seen.words, 0, (size_t)seen.count * sizeof *seen.words);
    *held = 0;
    for (int64_t i = 0; i < texts.count; i++) {
        const int64_t place = texts.places[i];
        if (place < 0)
            continue;
        ++*held;
        put(&seen, place);
        for (int64_t j = 0; j < texts.width; j++)
            if (texts.around[place * texts.width + j] >= 0)
                put(&seen, texts.around[place * texts.width + j]);
    }
    for (int64_t word = 0; word < seen.count; word++) {
        ranks[word] = (int32_t)found;
        for (uint64_t left = seen.words[word]; left; left &= left - 1) {
            places[found] = (int32_t)(word * 64 + __builtin_ctzll(left));
            own[found] = windows[found] = 0;
            found++;
        }
    }
#define RANK(place) (ranks[(place) >> 6] + __builtin_popcountll(seen.words[(place) >> 6] & (((uint64_t)1 << ((place) & 63)) - 1)))
    for (int64_t i = 0; i < texts.count; i++) {
        const int64_t place = texts.places[i];
        if (place < 0)
            continue;
        const int64_t rank = RANK(place);
        own[rank] = texts.counts[i];
        windows[rank] += OWN * texts.counts[i];
        for (int64_t j = 0; j < texts.width; j++) {
            const int64_t beside = texts.around[place * texts.width + j];
            if (beside >= 0)
                windows[RANK(beside)] += texts.counts[i];
        }
    }
    return found;
}

static PyObject *occurrences(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { LENGTHS, PLACES, COUNTS, AROUND, WIDTH, OUT, OUT_OWN, OUT_WINDOWS, ENDS, HELD };
    Arguments all;
    if (read_all(&all, given, count, "qqfini!f!f!q!q!") < 0)
        return NULL;
    const int64_t width = (int64_t)NUMBER(WIDTH), terms = size(&all, LENGTHS), texts = size(&all, PLACES);
    const int64_t end = size(&all, AROUND) / (width > 0 ? width : 1);
    const int64_t *lengths_of = DATA(LENGTHS), *places = DATA(PLACES);
    int64_t whole = 0;
    for (int64_t term = 0; term < terms; term++)
        whole += lengths_of[term] < 0 ? texts + 1 : lengths_of[term];
    if (AT_LEAST(whole, PLACES) < 0 || AT_LEAST(texts, COUNTS) < 0 || AT_LEAST(terms, ENDS, HELD) < 0 ||
        AT_LEAST(whole * (1 + width), OUT, OUT_OWN, OUT_WINDOWS) < 0)
        return NULL;
    for (int64_t i = 0; i < texts; i++)
        if (places[i] < -1 || places[i] >= end) {
            release(&all);
            return PyErr_Format(PyExc_IndexError, "%lld is no place", (long long)places[i]);
        }
    Places seen;
    int32_t *ranks = malloc((size_t)(end / 64 + 2) * sizeof *ranks);
    if (ranks == NULL || make_places(&seen, end) < 0) {
        free(ranks);
        return no_memory(&all);
    }
    PyThreadState *state = let_others(whole * (1 + width));
    int64_t found = 0, first = 0;
    for (int64_t term = 0; term < terms; term++) {
        Texts of_term = {places + first, (float *)DATA(COUNTS) + first, lengths_of[term], DATA(AROUND), width};
        found += one_term(of_term, seen, ranks, (int32_t *)DATA(OUT) + found, (float *)DATA(OUT_OWN) + found,
                          (float *)DATA(OUT_WINDOWS) + found, (int64_t *)DATA(HELD) + term);
        ((int64_t *)DATA(ENDS))[term] = found;
        first += lengths_of[term];
    }
    free(seen.words);
    free(ranks);
    return done(&all, state, found);
}

/* ---- impacts, add ---- */

WIDE static void impact_of(const float *frequency, const int32_t *places, const double *length, double k1, double b,
                           double average, int64_t count, float *out)
{
    const double rest = 1 - b;
    for (int64_t i = 0; i < count; i++) {
        const float pace = (float)(k1 * (rest + b * length[places[i]] / average));
        out[i] = frequency[i] > 0 ? frequency[i] / (frequency[i] + pace) : 0.0f;
    }
}

static PyObject *impacts(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { FREQUENCY, PLACES, LENGTH, K1, B, AVERAGE, OUT };
    Arguments all;
    if (read_all(&all, given, count, "fidnnnf!") < 0)
        return NULL;
    const int64_t wanted = size(&all, OUT), end = size(&all, LENGTH);
    if (AT_LEAST(wanted, FREQUENCY, PLACES) < 0)
        return NULL;
    const int32_t *places = DATA(PLACES);
    if (wanted && (places[0] < 0 || places[wanted - 1] >= end)) { /* they ascend */
        release(&all);
        return PyErr_Format(PyExc_IndexError, "a place is not in [0, %lld)", (long long)end);
    }
    PyThreadState *state = let_others(wanted);
    impact_of(DATA(FREQUENCY), places, DATA(LENGTH), NUMBER(K1), NUMBER(B), NUMBER(AVERAGE), wanted, DATA(OUT));
    return done(&all, state, wanted);
}

/* Add one term's values to `sums`, of which there are `end`. */
static int add_term(float *sums, int64_t end, PyObject *const *given)
{
    enum { PLACES, VALUES, WEIGHT, OF_TERM };
    Arguments all;
    if (read_all(&all, given, OF_TERM, "ifn") < 0)
        return -1;
    const int64_t wanted = size(&all, PLACES);
    if (AT_LEAST(wanted, VALUES) < 0)
        return -1;
    const int32_t *places = DATA(PLACES);
    const float *values = DATA(VALUES), weight = (float)NUMBER(WEIGHT);
    if (wanted && (places[0] < 0 || places[wanted - 1] >= end)) { /* they ascend */
        release(&all);
        PyErr_Format(PyExc_IndexError, "a place is not in [0, %lld)", (long long)end);
        return -1;
    }
    PyThreadState *state = let_others(wanted);
    for (int64_t i = 0; i < wanted; i++)
        sums[places[i]] += weight * values[i];
    if (state != NULL)
        PyEval_RestoreThread(state);
    release(&all);
    return 0;
}

static PyObject *add(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { SUMS, TERMS, OF_TERM = 3 };
    Arguments all;
    if (read_some(&all, given, count, TERMS, OF_TERM, "f!") < 0)
        return NULL;
    for (Py_ssize_t term = TERMS; term < count; term += OF_TERM)
        if (add_term(DATA(SUMS), size(&all, SUMS), given + term) < 0) {
            release(&all);
            return NULL;
        }
    return done(&all, NULL, (count - TERMS) / OF_TERM);
}

/* ---- largest ---- */

typedef struct {
    const float *about, *given;
    const uint8_t *named, *standing;
    float weight, speaker;
} Estimate;

/* Fill the estimates of some places, and return which of them are over `floor`. */
WIDE static uint64_t estimate(Estimate by, int64_t first, int64_t count, float floor, float *found)
{
    const float *about = by.about + first, *given = by.given + first;
    uint8_t over[BLOCK] = {0};
    for (int64_t i = 0; i < count; i++)
        found[i] = by.weight * about[i] + given[i];
    if (by.named != NULL)
        for (int64_t i = 0; i < count; i++)
            found[i] += by.named[first + i] ? by.speaker : 0.0f;
    for (int64_t i = 0; i < count; i++)
        over[i] = found[i] > floor;
    return bits(over);
}

/* Put a value in a heap, whose first one is the smallest, in the place of that. */
static void sift(float *values, int64_t *places, int64_t count, float value, int64_t place)
{
    int64_t at = 0;
    for (int64_t next; (next = 2 * at + 1) < count; at = next) {
        if (next + 1 < count && values[next + 1] < values[next])
            next++;
        if (values[next] >= value)
            break;
        values[at] = values[next];
        places[at] = places[next];
    }
    values[at] = value;
    places[at] = place;
}

static PyObject *largest(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { ABOUT, GIVEN, NAMED, STANDING, WEIGHT, SPEAKER, OUT };
    Arguments all;
    if (read_all(&all, given, count, "ff?~?~nnq!") < 0)
        return NULL;
    const int64_t end = size(&all, ABOUT), wanted = size(&all, OUT);
    if (AT_LEAST(end, GIVEN, NAMED, STANDING) < 0)
        return NULL;
    const Estimate by = {DATA(ABOUT), DATA(GIVEN), DATA(NAMED), DATA(STANDING), (float)NUMBER(WEIGHT),
                         (float)NUMBER(SPEAKER)};
    int64_t *places = DATA(OUT), held = 0;
    float *values = malloc((size_t)(wanted + 1) * sizeof *values);
    if (values == NULL)
        return no_memory(&all);
    for (int64_t i = 0; i < wanted; i++)
        values[i] = -INFINITY;
    PyThreadState *state = let_others(end);
    for (int64_t first = 0; wanted && first < end; first += BLOCK) {
        float found[BLOCK];
        const int64_t size = first + BLOCK < end ? BLOCK : end - first;
        EACH_BIT(i, estimate(by, first, size, values[0], found))
            if (found[i] > values[0] && (by.standing == NULL || by.standing[first + i])) {
                sift(values, places, wanted, found[i], first + i);
                held += held < wanted;
            }
    }
    if (held < wanted) { /* what stands for none is among them */
        int64_t kept = 0;
        for (int64_t i = 0; i < wanted; i++)
            if (values[i] > -INFINITY)
                places[kept++] = places[i];
        held = kept;
    }
    free(values);
    return done(&all, state, held);
}

/* ---- bounds, reaching ---- */

#define PARTS 128 /* of [0, 1], for each of which it is known between which knots it begins */

typedef struct {
    const float *about;
    const int32_t *before, *after;
    const uint8_t *embedded;
    double similarity, context, off;
    const double *cosine, *related;
    int64_t knots;
    int64_t knot_at[PARTS + 1];
    double most[PARTS + 2];
} Dense;

#define DENSE_KINDS "fiin?~nnd~d~"
enum { ABOUT, BEFORE, AFTER, OFF, EMBEDDED, SIMILARITY, CONTEXT, COSINE, RELATED, MORE };

static double means(const Dense *by, double cosine)
{
    const double x = cosine < 0 ? 0 : cosine > 1 ? 1 : cosine;
    if (by->knots == 0)
        return x;
    if (x >= by->cosine[by->knots - 1])
        return by->related[by->knots - 1];
    if (x < by->cosine[0])
        return by->related[0];
    int64_t knot = by->knot_at[(int)(x * PARTS)];
    while (x >= by->cosine[knot + 1])
        knot++;
    const double slope = (by->related[knot + 1] - by->related[knot]) / (by->cosine[knot + 1] - by->cosine[knot]);
    return slope * (x - by->cosine[knot]) + by->related[knot];
}

static inline void add_beside(const Dense *by, int64_t place, double *total, double *count)
{
    if (place >= 0 && (by->embedded == NULL || by->embedded[place])) {
        *total += by->about[place];
        *count += 1;
    }
}

static double made(const Dense *by, int64_t place, double off)
{
    double own = by->about[place], total = own, count = 1;
    double sum = by->similarity * means(by, own + off);
    if (by->context != 0) {
        add_beside(by, by->before[place], &total, &count);
        add_beside(by, by->after[place], &total, &count);
        sum += by->context * means(by, total / count + off);
    }
    return sum;
}

/* For each part of [0, 1], and for 1 itself, the most that a cosine in it or before it means. */
static void bound_means(Dense *by)
{
    double most = means(by, 0);
    int64_t knot = 0;
    for (int64_t part = 0; part < PARTS + 2; part++) {
        const double end = part < PARTS ? (part + 1.0) / PARTS : 1;
        for (; knot < by->knots && by->cosine[knot] <= end; knot++)
            most = fmax(most, by->related[knot]);
        by->most[part] = most = fmax(most, means(by, end));
    }
}

static inline float beside(const Dense *by, int64_t place, float than)
{
    return place >= 0 && by->about[place] > than ? by->about[place] : than;
}

/* At least what `made` returns, in a fraction of its time. */
static inline double made_at_most(const Dense *by, int64_t place)
{
    float nearest = by->about[place];
    if (by->context != 0)
        nearest = beside(by, by->after[place], beside(by, by->before[place], nearest));
    const double x = (double)nearest + by->off;
    return (by->similarity + by->context) * by->most[x <= 0 ? 0 : x >= 1 ? PARTS + 1 : (int)(x * PARTS)];
}

static int read_dense(Arguments *given, Dense *by)
{
    Arguments all = *given;
    const int64_t end = size(&all, ABOUT), knots = size(&all, COSINE);
    if (lengths(given, (const int[]){BEFORE, AFTER, EMBEDDED, -1}, end) < 0 ||
        lengths(given, (const int[]){RELATED, -1}, knots) < 0)
        return -1;
    *by = (Dense){DATA(ABOUT),     DATA(BEFORE), DATA(AFTER),  DATA(EMBEDDED), NUMBER(SIMILARITY),
                  NUMBER(CONTEXT), NUMBER(OFF),  DATA(COSINE), DATA(RELATED),  knots, {0}, {0}};
    int64_t knot = 0;
    for (int64_t part = 0; knots > 1 && part <= PARTS; part++) {
        while (knot + 2 < knots && by->cosine[knot + 1] <= (double)part / PARTS)
            knot++;
        by->knot_at[part] = knot;
    }
    return 0;
}

static PyObject *bounds(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { PLACES = MORE, OUT };
    Arguments all;
    Dense by;
    if (read_all(&all, given, count, DENSE_KINDS "qd!") < 0 || read_dense(&all, &by) < 0)
        return NULL;
    const int64_t wanted = size(&all, OUT), *places = DATA(PLACES);
    if (AT_LEAST(wanted, PLACES) < 0 || within(&all, places, wanted, size(&all, ABOUT)) < 0)
        return NULL;
    for (int64_t i = 0; i < wanted; i++)
        ((double *)DATA(OUT))[i] = made(&by, places[i], by.off);
    return done(&all, NULL, wanted);
}

/* Tell which of some places may reach the least by words, and which are as near as that takes. */
WIDE static void mark(const float *about, const float *given, const uint8_t *named, float nearest, float speaker,
                      float enough, int64_t count, uint64_t *by_words, uint64_t *near)
{
    uint8_t told[BLOCK] = {0}, is_near[BLOCK] = {0};
    for (int64_t i = 0; i < count; i++)
        is_near[i] = about[i] >= nearest;
    if (named == NULL)
        for (int64_t i = 0; i < count; i++)
            told[i] = (given[i] >= enough) & (given[i] > 0);
    else
        for (int64_t i = 0; i < count; i++)
            told[i] = (given[i] + (named[i] ? speaker : 0.0f) >= enough) & (given[i] > 0);
    *by_words = bits(told);
    *near = bits(is_near);
}

static PyObject *reaching(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { GIVEN = MORE, NAMED, STANDING, SPEAKER, LEAST, NEAR, NEAR_NAMED, ENOUGH, OUT };
    Arguments all;
    Dense by;
    if (read_all(&all, given, count, DENSE_KINDS "f?~?~nnnnnq!") < 0 || read_dense(&all, &by) < 0)
        return NULL;
    const int64_t end = size(&all, ABOUT);
    if (AT_LEAST(end, GIVEN, NAMED, STANDING, OUT) < 0)
        return NULL;
    const float *added = DATA(GIVEN), enough = (float)NUMBER(ENOUGH);
    const float near[] = {(float)NUMBER(NEAR), (float)NUMBER(NEAR_NAMED)}; /* of one who is not named, and is */
    const float nearest = near[1] < near[0] ? near[1] : near[0];
    const uint8_t *named = DATA(NAMED), *standing = DATA(STANDING);
    const float speaker = (float)NUMBER(SPEAKER);
    const double least = NUMBER(LEAST);
    Places maybe;
    if (make_places(&maybe, end) < 0)
        return no_memory(&all);
    PyThreadState *state = let_others(end);
    bound_means(&by);
    for (int64_t first = 0; first < end; first += BLOCK) {
        const int64_t size = first + BLOCK < end ? BLOCK : end - first;
        uint64_t by_words, near_ones;
        mark(by.about + first, added + first, named == NULL ? NULL : named + first, nearest, speaker, enough, size,
             &by_words, &near_ones);
        maybe.words[first / BLOCK] |= by_words;
        EACH_BIT(i, near_ones)
        {
            const int64_t place = first + i, reached[] = {place, by.before[place], by.after[place]};
            for (int beside = 0; beside < (by.context != 0 ? 3 : 1); beside++)
                if (reached[beside] >= 0 && by.about[place] >= near[named != NULL && named[reached[beside]]])
                    put(&maybe, reached[beside]);
        }
    }
    int64_t found = 0, *out = DATA(OUT);
    for (int64_t place = 0; by.embedded != NULL && place < end; place++)
        if (!by.embedded[place])
            put(&maybe, place);
    EACH(place, maybe)
    {
        if (standing != NULL && !standing[place])
            continue;
        const float boosted = added[place] + (named != NULL && named[place] ? speaker : 0.0f);
        if ((by.embedded != NULL && !by.embedded[place]) ||
            (boosted + made_at_most(&by, place) >= least && boosted + made(&by, place, by.off) >= least))
            out[found++] = place;
    }
    free(maybe.words);
    return done(&all, state, found);
}

/* ---- met ---- */

typedef struct {
    int64_t *rows;
    double *own, *windows;
    int64_t count, room;
} Met;

/* Fill which of some places one term stands in, and how often, behind what is filled already. */
static int met_term(const int64_t *places, int64_t wanted, PyObject *const *given, Met *met)
{
    enum { HELD, OWN_COUNTS, WINDOWS, OF_TERM };
    Arguments all;
    if (read_all(&all, given, OF_TERM, "iff") < 0)
        return -1;
    const int64_t held = size(&all, HELD);
    if (AT_LEAST(held, OWN_COUNTS, WINDOWS) < 0)
        return -1;
    const int32_t *holding = DATA(HELD);
    for (int64_t row = 0; row < wanted && met->count < met->room; row++) {
        int64_t low = 0, high = held;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (holding[middle] < places[row])
                low = middle + 1;
            else
                high = middle;
        }
        if (low == held || holding[low] != places[row])
            continue;
        met->rows[met->count] = row;
        met->own[met->count] = ((float *)DATA(OWN_COUNTS))[low];
        met->windows[met->count++] = ((float *)DATA(WINDOWS))[low];
    }
    release(&all);
    return 0;
}

static PyObject *met(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    enum { WANTED, OUT, OUT_OWN, OUT_WINDOWS, OFFSETS, TERMS, OF_TERM = 3 };
    Arguments all;
    if (read_some(&all, given, count, TERMS, OF_TERM, "qq!d!d!q!") < 0)
        return NULL;
    const int64_t wanted = size(&all, WANTED), terms = (count - TERMS) / OF_TERM;
    if (AT_LEAST(terms * wanted, OUT, OUT_OWN, OUT_WINDOWS) < 0 || AT_LEAST(terms + 1, OFFSETS) < 0)
        return NULL;
    int64_t *offsets = DATA(OFFSETS);
    Met found = {DATA(OUT), DATA(OUT_OWN), DATA(OUT_WINDOWS), 0, terms * wanted};
    offsets[0] = 0;
    for (int64_t term = 0; term < terms; term++) {
        if (met_term(DATA(WANTED), wanted, given + TERMS + term * OF_TERM, &found) < 0) {
            release(&all);
            return NULL;
        }
        offsets[term + 1] = found.count;
    }
    return done(&all, NULL, found.count);
}

/* ---- The module ---- */

#define LOOP(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef loops[] = {LOOP(scan),    LOOP(occurrences), LOOP(impacts),  LOOP(add), LOOP(largest),
                              LOOP(bounds), LOOP(reaching),    LOOP(met), {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_loops", NULL, 0, loops, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__loops(void)
{
    return PyModuleDef_Init(&module);
}
