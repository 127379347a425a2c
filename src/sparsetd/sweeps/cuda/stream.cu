// The streaming iterations, one thread block for each run: the state stays in registers for all rows.
//
// For one transition A_t = B M B' + diag(damping), b_t = r B m, B = blockdiag([phi psi e], ...), the constant table (M, m)
// of the library's operators. A step needs the products of the state with (phi, psi, e) only. They are formed for row t + 1
// in the same pass that updates the state with row t, and summed over the block in a fixed order: thread by thread over its
// own elements, a tree over the lanes of a warp, then over the warps. Nothing is atomic, so every run gives the same bits.
//
// The host puts the constants of the method in front of this file:
//   REAL THREADS PER ACTIONS BLOCKS   numbers, threads, elements of a thread, action blocks, unknowns (theta or w and theta)
//   DUAL BALL      a dual y: 0 none, 1 yes; its ball: 0 none, 1 box, 2 l2
//   RULE MIRROR    0 steps by hand, 1 distance over gradients, 2 dual averaging; a trial point
//   RESIDENT       blocks that a multiprocessor should hold at once
//   KEEP           1: this row and the next in registers too, where there is room; 2: this row, phi in registers and phi' in
//                  shared memory (one block of actions only); 0: rows are read again
//   SHARED         y and the averages in shared memory, so that more runs (or wider ones) fit on a multiprocessor
//   TRACE DAMPED RADIUS ORIGIN L1 L2 SUM   which parts the method has (SUM: 0 last point, 1 average, 2 average of the last rows)
//   DECAY          steps by hand that fall with time
//   PATTERN        which entries of M are not zero in any run, row by row
//   NEED_X NEED_Y  which products of x and of y (block by block, phi psi e) are wanted
//   LIVE_X LIVE_Y  which coefficients of the gradients of x and y can differ from zero
//   PADDED         the number of sums, rounded up to a power of two

#define SIZE (3 * BLOCKS)
#define SLOT(mask, i) __popc((mask) & ((1u << (i)) - 1u))
#define HAS(mask, i) ((((unsigned long long)(mask)) >> (i)) & 1ull)
#define N_X __popc(NEED_X)
#define N_Y (N_X + __popc(NEED_Y))  // then come the squares: of y, of x, of the way from the origin, of w; and those with e
#define AT_YY N_Y
#define AT_XX (AT_YY + (BALL == 2))
#define AT_WAY (AT_XX + RADIUS)
#define AT_WW (AT_WAY + (RULE > 0))
#define AT_E (AT_WW + (DAMPED && RULE > 0))
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)
#define ELEMENTS EACH(a, ACTIONS) EACH(i, PER)
#define WARPS (THREADS / 32)
#define WIDTH (THREADS * PER)      // features with their padding
#define VECTORS (2 * BLOCKS + 3)   // of a saved state: x, y (or their sums of gradients), the average, the earlier one, e
#define SCALARS 13
#define GROWTH 1e8     // a run diverges beyond this multiple of its scale, which the rewards and the first SETTLING rows set
#define SETTLING 10

#if RULE > 0
typedef double real;  // the record of an automatic rule
#else
typedef REAL real;
#endif

struct Row {
  REAL f[KEEP == 1 ? PER : 1], g[KEEP == 1 ? PER : 1];
  const REAL *from, *to;
  real reward, fresh, old, ahead[ACTIONS], gram[3];
  int action;
};

// x and y, or the sums that they are functions of; the average, the earlier one, and the trace.
#if SHARED
struct State {
  REAL x[BLOCKS][ACTIONS][PER], e[ACTIONS][PER], f[KEEP == 2 ? PER : 1];
};
extern __shared__ double pool[];
#define APART(v, a, i) ((REAL *)pool)[(((v) * ACTIONS + (a)) * PER + (i)) * THREADS + threadIdx.x]
#define Y(b, a, i) APART(b, a, i)
#define AVERAGE(a, i) APART(DUAL * BLOCKS, a, i)
#define EARLIER(a, i) APART(DUAL * BLOCKS + (SUM == 2), a, i)
#define KEPT(i) APART(DUAL * BLOCKS + SUM, 0, i)
#else
struct State {
  REAL x[BLOCKS][ACTIONS][PER], y[DUAL ? BLOCKS : 1][ACTIONS][PER];
  REAL sum[ACTIONS][PER], earlier[ACTIONS][PER], e[ACTIONS][PER], f[1], g[1];
};
#define Y(b, a, i) s.y[b][a][i]
#define AVERAGE(a, i) s.sum[a][i]
#define EARLIER(a, i) s.earlier[a][i]
#define KEPT(i) s.g[0]
#endif
#define HERE(a, i) (KEEP == 2 ? s.f[KEEP == 2 ? i : 0] : here(row, a, i))
#define NEXT(a, i) (KEEP == 2 ? KEPT(i) : next(row, a, i))

struct Table {
  real M[SIZE * SIZE], m[SIZE], damping[BLOCKS], l1[BLOCKS], l2[BLOCKS];
  real scale, horizon, power, radius, dual_radius, start, cap, norm, limit;
};

// Coefficients of (phi, psi, e) in the gradient of every block, and its length.
struct Gradient {
  real k[SIZE], square;
};

struct Data {
  const REAL *phi, *phi_next, *origin;
  const real *reward, *ahead, *fresh, *old, *gram;
  const int *action;
  int n;
};

__device__ __forceinline__ void load(Row &row, const Data &d, int t) {
  row.from = d.phi + (size_t)t * WIDTH + threadIdx.x, row.to = d.phi_next + (size_t)t * WIDTH + threadIdx.x;
  if (KEEP == 1) EACH(i, PER) row.f[i] = __ldg(row.from + i * THREADS);
  if (KEEP == 1) EACH(i, PER) row.g[i] = __ldg(row.to + i * THREADS);
  row.reward = d.reward[t], row.fresh = d.fresh[t], row.action = ACTIONS > 1 ? d.action[t] : 0;
  if (TRACE) row.old = d.old[t];
  EACH(a, ACTIONS) row.ahead[a] = d.ahead[t * ACTIONS + a];
  if (RULE > 0) EACH(j, 3) row.gram[j] = d.gram[3 * t + j];
}

// Whether a row touches a block of actions at all: most leave one of three alone.
__device__ __forceinline__ bool touches(const Row &row, int a) {
  return ACTIONS == 1 || a == row.action || row.ahead[a] != 0;
}

__device__ __forceinline__ REAL here(const Row &row, int a, int i) {
  return ACTIONS == 1 || a == row.action ? (KEEP == 1 ? row.f[KEEP == 1 ? i : 0] : __ldg(row.from + i * THREADS)) : (REAL)0;
}

// With one block of actions, psi comes without its discount, which is multiplied in once, after the sum.
__device__ __forceinline__ REAL next(const Row &row, int a, int i) {
  REAL g = KEEP == 1 ? row.g[KEEP == 1 ? i : 0] : __ldg(row.to + i * THREADS);
  return ACTIONS == 1 ? g : (REAL)row.ahead[a] * g;
}

__device__ __forceinline__ void add_products(REAL (&sums)[PADDED], unsigned mask, int first, int b, REAL v, REAL f, REAL g, REAL e) {
  if (HAS(mask, 3 * b)) sums[first + SLOT(mask, 3 * b)] += v * f;
  if (HAS(mask, 3 * b + 1)) sums[first + SLOT(mask, 3 * b + 1)] += v * g;
  if (TRACE && HAS(mask, 3 * b + 2)) sums[first + SLOT(mask, 3 * b + 2)] += v * e;
}

// Sums over the block. Lanes exchange halves of their values until each holds one quantity, which halves the shuffles.
__device__ __forceinline__ void total(REAL (&v)[PADDED], REAL *room, int &turn) {
  const unsigned all = 0xffffffffu;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, offset = 16;
#pragma unroll
  for (int half = PADDED / 2; half >= 1; half /= 2, offset /= 2) {
    bool up = lane & offset;
    EACH(i, half) {
      REAL send = up ? v[i] : v[i + half], keep = up ? v[i + half] : v[i];
      v[i] = keep + __shfl_xor_sync(all, send, offset);
    }
  }
#pragma unroll
  for (; offset >= 1; offset /= 2) v[0] += __shfl_xor_sync(all, v[0], offset);
  REAL *place = room + turn * WARPS * PADDED;
  if (lane % (32 / PADDED) == 0) place[warp * PADDED + lane / (32 / PADDED)] = v[0];
  __syncthreads();
  REAL mine = lane < WARPS * PADDED ? place[lane] : (REAL)0;  // every warp adds the warps' sums, a few to each lane
  EACH(k, (WARPS * PADDED - 1) / 32) mine += lane + 32 * (k + 1) < WARPS * PADDED ? place[lane + 32 * (k + 1)] : (REAL)0;
#pragma unroll
  for (offset = PADDED; offset < 32; offset *= 2) mine += __shfl_xor_sync(all, mine, offset);
  EACH(q, PADDED) v[q] = __shfl_sync(all, mine, q);
  turn ^= 1;
}

// The products of one point in the order phi psi e of each block, scaled by a pending projection; the sum of their sizes.
__device__ __forceinline__ real products(real (&p)[SIZE], const REAL (&sums)[PADDED], unsigned mask, int first, const Row &row, real scale) {
  real size = 0;
  EACH(j, SIZE) {
    int from = !TRACE && j % 3 == 2 ? j - 2 : j;
    p[j] = HAS(mask, from) ? scale * (real)sums[first + SLOT(mask, from)] : (real)0;
    if (j % 3 == 1 && ACTIONS == 1) p[j] *= row.ahead[0];
    if (!TRACE && j % 3 == 2) p[j] *= row.fresh;
    size += fabs(p[j]);
  }
  return size;
}

// The Gram matrix of the row is that of phi, phi - phi' and e: no difference of nearly equal numbers is ever squared.
__device__ __forceinline__ real square(const real *k, const Row &row, const REAL (&sums)[PADDED], real damping, const real *p, real xx) {
  real c = row.ahead[0], q = -c * k[1], f = k[0] + c * k[1] + (TRACE ? (real)0 : row.fresh * k[2]);
  real s = f * f * row.gram[0] + 2 * f * q * row.gram[1] + q * q * row.gram[2];
  if (TRACE) {
    real ef = sums[AT_E], ed = sums[AT_E + 1], ee = sums[AT_E + 2];
    s += k[2] * (2 * f * ef + 2 * q * ed + k[2] * ee);
  }
  if (DAMPED) s += damping * (2 * (k[0] * p[0] + k[1] * p[1] + k[2] * p[2]) + damping * xx);
  return s;
}

__device__ __forceinline__ void combine(Gradient &g, const real (&p)[SIZE], const Table &t, const Row &row, const REAL (&sums)[PADDED], bool adjoint, bool damped) {
  EACH(j, SIZE) {
    g.k[j] = adjoint ? (real)0 : -row.reward * t.m[j];
    EACH(c, SIZE) {
      int at = adjoint ? c * SIZE + j : j * SIZE + c;
      if (HAS(PATTERN, at)) g.k[j] += t.M[at] * p[c];
    }
  }
  g.square = 0;
  if (RULE > 0) EACH(b, BLOCKS) {
    bool d = damped && DAMPED && b == 0;
    g.square += square(g.k + 3 * b, row, sums, d ? t.damping[b] : (real)0, p + 3 * b, d ? (real)sums[AT_WW] : (real)0);
  }
}

// The entry of a gradient's block b at one element; f, g and e are the row's entries there. What is zero costs nothing.
__device__ __forceinline__ REAL entry(const Gradient &k, unsigned live, const Row &row, int b, REAL f, REAL g, REAL e) {
  REAL v = 0;
  if (HAS(live, 3 * b)) v = (REAL)k.k[3 * b] * f;
  if (HAS(live, 3 * b + 1)) v += (REAL)k.k[3 * b + 1] * g;
  if (TRACE && HAS(live, 3 * b + 2)) v += (REAL)k.k[3 * b + 2] * e;
  return v;
}

// The coefficients times the step (dual averaging weighs its sums instead), those of psi with the discount, and those of e
// added to those of phi where there is no trace.
__device__ __forceinline__ void scale(Gradient &g, real step, const Row &row) {
  EACH(b, BLOCKS) {
    if (!TRACE) g.k[3 * b] += row.fresh * g.k[3 * b + 2];
    if (ACTIONS == 1) g.k[3 * b + 1] *= row.ahead[0];
    if (RULE < 2) EACH(j, 3) g.k[3 * b + j] *= step;
  }
}

__device__ __forceinline__ REAL shrink(REAL v, const Table &t, int b, real step) {
  if (L1) {
    REAL bound = step * t.l1[b];
    v -= fmin(fmax(v, -bound), bound);
  }
  return L2 ? v / (REAL)(1 + step * t.l2[b]) : v;
}

__device__ __forceinline__ REAL clip(REAL v) { return BALL == 1 ? fmin(fmax(v, (REAL)-1), (REAL)1) : v; }

// Scalars of a run, the same in every thread.
struct Record {
  real gx, gy, reach, start, weight, mass, size, rows, sx, sy, earlier, t, scale, last;
};

// Whether the value |theta'phi| + |theta'psi| stays within the run's own scale and all products within the numbers.
__device__ __forceinline__ bool in_range(Record &r, real reward, real value, real all, real limit) {
  r.scale = fmax(r.scale, fabs(reward));
  if ((r.t < SETTLING || r.scale == 0) && value < limit) r.scale = fmax(r.scale, value);
  return value <= (real)GROWTH * r.scale && all < limit;
}

__device__ __forceinline__ real over_root(real top, real s) { return s > 0 ? top / sqrt(s) : (real)0; }

// One step's numbers: alpha for x, beta for y, and for dual averaging the weight and the scales of its sums.
struct Step {
  real alpha, beta, mass;
};

__device__ __forceinline__ Step step_of(const Record &r, const Table &t, real nx, real ny) {
  real reach = fmax(r.reach, r.start), root = over_root(reach, r.gx + nx);
  if (RULE == 0) {
    real alpha = DECAY ? t.scale / pow(1 + r.t / t.horizon, t.power) : t.scale;
    return {alpha, alpha, 0};
  }
  if (RULE == 1) {
    real alpha = r.last > 0 ? fmin(root, t.cap * fmin(r.rows / r.size, (real)1.5 / r.last)) : root;
    return {alpha, over_root(t.dual_radius, r.gy + ny), 0};
  }
  return {over_root(1, r.gx + nx), over_root(t.dual_radius, r.gy + reach * reach * ny), reach};
}

// x of a stored entry v and its scaled gradient g: a step, or (dual averaging) a function of the sum with `weight` times g.
__device__ __forceinline__ REAL primal(REAL v, REAL g, const Step &s, const Table &t, int b, real weight, real mass, REAL origin) {
  if (RULE == 2) return s.alpha > 0 ? shrink(origin - (REAL)s.alpha * (v + (REAL)weight * g), t, b, s.alpha * mass) : origin;
  return shrink(v - g, t, b, s.alpha);
}

__device__ __forceinline__ REAL dual(REAL v, REAL g, const Step &s, real weight) {
  return RULE == 2 ? clip((REAL)s.beta * (v + (REAL)weight * g)) : clip(v + g);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) stream(
    const REAL *phi, const REAL *phi_next, const real *reward, const int *action, const real *gram, const real *fresh,
    const real *old, const real *ahead, const double *tables, const REAL *start_at, const int *job_of, const int *data_of,
    const int *trace_of, const int *ahead_of, const int *points, int n, int passes, int n_points, int origins, REAL *found,
    int *taken, REAL *saved, double *scalars) {
  __shared__ REAL room[2 * WARPS * PADDED];
  const int run = blockIdx.x, data = data_of[run];
  const double *k = tables + (size_t)job_of[run] * (SIZE * SIZE + SIZE + 3 * BLOCKS + 9);
#if SHARED
  __shared__  // where registers are scarce
#endif
  Table t;
  if (!SHARED || threadIdx.x == 0) {
    EACH(j, SIZE * SIZE) t.M[j] = k[j];
    k += SIZE * SIZE;
    EACH(j, SIZE) t.m[j] = k[j];
    k += SIZE;
    EACH(b, BLOCKS) t.damping[b] = k[b], t.l1[b] = k[BLOCKS + b], t.l2[b] = k[2 * BLOCKS + b];
    k += 3 * BLOCKS;
    t.scale = k[0], t.horizon = k[1], t.power = k[2], t.radius = k[3], t.dual_radius = k[4], t.start = k[5], t.cap = k[6], t.norm = k[7], t.limit = k[8];
  }
  if (SHARED) __syncthreads();
  const size_t trace = ((size_t)trace_of[run]) * n, where = (size_t)data * n;
  Data d = {phi + where * WIDTH, phi_next + where * WIDTH, start_at + (size_t)(origins > 1 ? run : 0) * ACTIONS * WIDTH, reward + where,
            ahead + (size_t)ahead_of[run] * n * ACTIONS, fresh + trace, old + trace, gram + 3 * where, action + where, n};
  State s;
  Record r = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0};
  ELEMENTS {
    const size_t j = a * WIDTH + i * THREADS + threadIdx.x;
    EACH(b, BLOCKS) s.x[b][a][i] = RULE < 2 && ORIGIN && b == BLOCKS - 1 ? d.origin[j] : (REAL)0;
    if (DUAL) EACH(b, BLOCKS) Y(b, a, i) = 0;
    s.e[a][i] = 0;
    if (SUM) AVERAGE(a, i) = 0;
    if (SUM == 2) EARLIER(a, i) = 0;
    if (saved) {
      const REAL *v = saved + (size_t)run * VECTORS * ACTIONS * WIDTH + j;
      EACH(b, BLOCKS) s.x[b][a][i] = v[b * ACTIONS * WIDTH];
      if (DUAL) EACH(b, BLOCKS) Y(b, a, i) = v[(BLOCKS + b) * ACTIONS * WIDTH];
      if (SUM) AVERAGE(a, i) = v[2 * BLOCKS * ACTIONS * WIDTH];
      if (SUM == 2) EARLIER(a, i) = v[(2 * BLOCKS + 1) * ACTIONS * WIDTH];
      if (TRACE) s.e[a][i] = v[(2 * BLOCKS + 2) * ACTIONS * WIDTH];
    }
  }
  if (saved) {
    const double *v = scalars + (size_t)run * SCALARS;
    r = {(real)v[0], (real)v[1], (real)v[2], (real)v[3], (real)v[4], (real)v[5], (real)v[6], (real)v[7], (real)v[8], (real)v[9], (real)v[10], (real)v[11], (real)v[12]};
  }
  Row row, following;
  REAL sums[PADDED];
  int turn = 0, point = 0;
  bool fine = true;
  load(following, d, 0);

  // Takes the state to the next row: x and y after the step (none before the first row), and the sums for that row.
  // `g` and `h` are the gradients of x and y at the point that counts, `g0` and `h0` those of the trial.
#define PASS(FIRST)                                                                                                      \
  {                                                                                                                     \
    EACH(q, PADDED) sums[q] = 0;                                                                                        \
    ELEMENTS {                                                                                                          \
      REAL f = HERE(a, i), n_ = NEXT(a, i), e = s.e[a][i];                                                              \
      REAL nf = here(following, a, i), ng = next(following, a, i), ne = 0;                                              \
      if (KEEP == 2) s.f[KEEP == 2 ? i : 0] = nf, KEPT(i) = ng;                                                         \
      if (TRACE && more) ne = s.e[a][i] = (REAL)following.fresh * nf + (REAL)following.old * e;                         \
      EACH(b, BLOCKS) {                                                                                                 \
        REAL origin = ORIGIN && b == BLOCKS - 1 ? d.origin[a * WIDTH + i * THREADS + threadIdx.x] : (REAL)0, v, u = 0;  \
        if (!(FIRST)) {                                                                                                 \
          REAL x = (RADIUS ? (REAL)r.sx : (REAL)1) * s.x[b][a][i], y = 0;                                               \
          if (DUAL) y = RULE == 2 || BALL != 2 ? Y(b, a, i) : (REAL)sy * Y(b, a, i);                                \
          bool on = TRACE || touches(row, a);                                                                           \
          REAL gx = on ? entry(g, LIVE_X, row, b, f, n_, e) : (REAL)0;                                                  \
          if (DAMPED && !MIRROR && b == 0) gx += (REAL)(now.alpha * t.damping[b]) * x;                                  \
          if (MIRROR) {                                                                                                 \
            REAL g1 = entry(g0, LIVE_X, row, b, f, n_, e);                                                              \
            if (DAMPED && b == 0) g1 += (REAL)(trial.alpha * t.damping[b]) * x;                                         \
            REAL mid = primal(x, g1, trial, t, b, trial.mass, r.mass, origin)                             ;                  \
            if (DAMPED && b == 0) gx += (REAL)(now.alpha * t.damping[b]) * mid;                                         \
            if (SUM && b == BLOCKS - 1) AVERAGE(a, i) += (REAL)counted * mid;                                             \
          } else if (SUM && b == BLOCKS - 1)                                                                            \
            AVERAGE(a, i) += (REAL)counted * x;                                                                           \
          if (RULE == 2) {                                                                                              \
            s.x[b][a][i] += (REAL)now.mass * gx;                                                                        \
            if (DUAL) Y(b, a, i) += (REAL)now.mass * entry(h, LIVE_Y, row, b, f, n_, e);                                      \
          } else {                                                                                                      \
            s.x[b][a][i] = primal(x, gx, now, t, b, 0, 0, origin);                                                      \
            if (DUAL) Y(b, a, i) = on ? dual(y, entry(h, LIVE_Y, row, b, f, n_, e), now, 0) : y;                              \
          }                                                                                                             \
        }                                                                                                               \
        v = RULE == 2 ? primal(s.x[b][a][i], 0, now, t, b, 0, r.mass, origin) : s.x[b][a][i];                           \
        if (DUAL) u = RULE == 2 ? dual(Y(b, a, i), 0, now, 0) : Y(b, a, i);                                         \
        if (TRACE || touches(following, a)) {                                                                           \
          add_products(sums, NEED_X, 0, b, v, nf, ng, ne);                                                              \
          if (DUAL) add_products(sums, NEED_Y, N_X, b, u, nf, ng, ne);                                                  \
        }                                                                                                               \
        if (BALL == 2) sums[AT_YY] += u * u;                                                                            \
        if (RADIUS) sums[AT_XX] += v * v;                                                                               \
        if (RULE > 0) sums[AT_WAY] += (v - origin) * (v - origin);                                                      \
        if (DAMPED && RULE > 0 && b == 0) sums[AT_WW] += v * v;                                                         \
      }                                                                                                                 \
      if (TRACE && RULE > 0) sums[AT_E] += ne * nf, sums[AT_E + 1] += ne * (nf - ng), sums[AT_E + 2] += ne * ne;               \
    }                                                                                                                   \
    total(sums, room, turn);                                                                                            \
    row = following;                                                                                                    \
  }

  Gradient g, h, g0, h0;
  Step now = {0, 0, 0}, trial = {0, 0, 0};
  if (RULE == 2) now = step_of(r, t, 0, 0);
  real counted = 0, sy = 1;
  bool more = true;
  PASS(true)
  const int all = n * passes;
  int index = 0, due = n_points ? points[0] : 0;
  for (int c = 0; c < all; ++c) {
    more = c + 1 < all;
    if (++index == n) index = 0;
    if (more) load(following, d, index);  // used after the reduction, which hides the time it takes
    if (RADIUS) r.sx = sums[AT_XX] > t.radius * t.radius ? t.radius / sqrt((real)sums[AT_XX]) : (real)1;
    sy = BALL == 2 && sums[AT_YY] > 1 ? 1 / sqrt((real)sums[AT_YY]) : (real)1;
    if (RULE > 0 && r.t > 0) r.reach = fmax(r.reach, sqrt((real)sums[AT_WAY]));
    real p[SIZE], q[SIZE];
    real all_of = products(p, sums, NEED_X, 0, row, RADIUS ? r.sx : (real)1);
    if (DUAL) all_of += products(q, sums, NEED_Y, N_X, row, sy);
    fine = in_range(r, row.reward, fabs(p[SIZE - 3]) + fabs(p[SIZE - 2]), all_of, t.limit);
    if (!fine) break;
    if (SUM == 2 && r.t >= 2 && ((long long)r.t & ((long long)r.t - 1)) == 0) {
      ELEMENTS EARLIER(a, i) = AVERAGE(a, i), AVERAGE(a, i) = 0;
      r.earlier = r.weight, r.weight = 0;
    }
    combine(h, p, t, row, sums, false, !DUAL);
    g = h;
    if (DUAL) combine(g, q, t, row, sums, true, false);
    real nx = g.square, ny = DUAL ? h.square : (real)0;
    if (RULE > 0) {
      real ee = TRACE ? (real)sums[AT_E + 2] : row.fresh * row.fresh * row.gram[0], c0 = row.ahead[0];
      real psi = c0 * c0 * (row.gram[0] - 2 * row.gram[1] + row.gram[2]);
      real bound = t.norm * (row.gram[0] + psi + sqrt(ee * fmax(row.gram[0], psi))) + (DAMPED ? t.damping[0] : (real)0);
      if (bound > 0) r.start = fmax(r.start, t.start * sqrt(DUAL ? ny : nx) / bound);
      r.size += bound, r.rows += 1, r.last = bound;
    }
    now = step_of(r, t, nx, ny);
    if (MIRROR) {
      trial = now, g0 = g, h0 = h;
      scale(g0, trial.alpha, row), scale(h0, trial.beta, row);
      REAL at[PADDED];
      EACH(j, PADDED) at[j] = 0;
      ELEMENTS {
        REAL f = HERE(a, i), n_ = NEXT(a, i), e = s.e[a][i];
        EACH(b, BLOCKS) {
          REAL origin = ORIGIN && b == BLOCKS - 1 ? d.origin[a * WIDTH + i * THREADS + threadIdx.x] : (REAL)0, v, u = 0;
          REAL x = s.x[b][a][i], gx = entry(g0, LIVE_X, row, b, f, n_, e);
          if (DAMPED && b == 0) gx += (REAL)(trial.alpha * t.damping[b]) * x;
          v = primal(x, gx, trial, t, b, trial.mass, r.mass + trial.mass, origin);
          if (DUAL) u = dual(RULE == 2 || BALL != 2 ? Y(b, a, i) : (REAL)sy * Y(b, a, i), entry(h0, LIVE_Y, row, b, f, n_, e), trial, trial.mass);
          add_products(at, NEED_X, 0, b, v, f, n_, e);
          if (DUAL) add_products(at, NEED_Y, N_X, b, u, f, n_, e);
          if (BALL == 2) at[AT_YY] += u * u;
          if (DAMPED && RULE > 0 && b == 0) at[AT_WW] += v * v;
        }
      }
      total(at, room, turn);
      if (TRACE && RULE > 0) EACH(j, 3) at[AT_E + j] = sums[AT_E + j];
      products(p, at, NEED_X, 0, row, 1);
      if (DUAL) products(q, at, NEED_Y, N_X, row, BALL == 2 && at[AT_YY] > 1 ? 1 / sqrt((real)at[AT_YY]) : (real)1);
      combine(h, p, t, row, at, false, !DUAL);
      g = h;
      if (DUAL) combine(g, q, t, row, at, true, false);
      nx = fmax(nx, g.square), ny = fmax(ny, DUAL ? h.square : (real)0);
      now = step_of(r, t, nx, ny);
    }
    scale(g, now.alpha, row);
    if (DUAL) scale(h, now.beta, row);
    counted = RULE == 2 ? now.mass : now.alpha;
    r.gx += nx, r.gy += (RULE == 2 ? now.mass * now.mass : (real)1) * ny, r.mass += now.mass, r.weight += counted;
    if (RULE == 2) {
      real mass = now.mass;
      now = step_of(r, t, 0, 0), now.mass = mass;
    }
    PASS(false)
    r.t += 1;
    if (c + 1 == due) {
      real last = RULE == 0 && !MIRROR ? step_of(r, t, 0, 0).alpha : (real)0, weight = r.weight + (SUM == 2 ? r.earlier : (real)0) + last;
      real sx = RADIUS && sums[AT_XX] > t.radius * t.radius ? t.radius / sqrt((real)sums[AT_XX]) : (real)1;
      ELEMENTS {
        const size_t j = a * WIDTH + i * THREADS + threadIdx.x;
        REAL v = (REAL)sx * s.x[BLOCKS - 1][a][i];
        if (RULE == 2) v = primal(s.x[BLOCKS - 1][a][i], 0, now, t, BLOCKS - 1, 0, r.mass, ORIGIN ? d.origin[j] : (REAL)0);
        if (SUM) v = (AVERAGE(a, i) + (SUM == 2 ? EARLIER(a, i) : (REAL)0) + (REAL)last * v) / (REAL)weight;
        found[((size_t)run * n_points + point) * ACTIONS * WIDTH + j] = v;
      }
      due = ++point < n_points ? points[point] : 0;
    }
  }
  if (!fine)  // a run that diverged reports its average without the last point at all moments that it did not reach
    for (; point < n_points; ++point) ELEMENTS {
        real weight = r.weight + (SUM == 2 ? r.earlier : (real)0);
        REAL v = (REAL)r.sx * s.x[BLOCKS - 1][a][i];
        if (SUM && weight > 0) v = (AVERAGE(a, i) + (SUM == 2 ? EARLIER(a, i) : (REAL)0)) / (REAL)weight;
        found[((size_t)run * n_points + point) * ACTIONS * WIDTH + a * WIDTH + i * THREADS + threadIdx.x] = v;
      }
  if (threadIdx.x == 0) taken[run] = (int)r.t;
  if (saved) {
    ELEMENTS {
      REAL *v = saved + (size_t)run * VECTORS * ACTIONS * WIDTH + a * WIDTH + i * THREADS + threadIdx.x;
      EACH(b, BLOCKS) v[b * ACTIONS * WIDTH] = s.x[b][a][i];
      if (DUAL) EACH(b, BLOCKS) v[(BLOCKS + b) * ACTIONS * WIDTH] = (BALL == 2 && RULE < 2 && sums[AT_YY] > 1 ? (REAL)(1 / sqrt((real)sums[AT_YY])) : (REAL)1) * Y(b, a, i);
      if (SUM) v[2 * BLOCKS * ACTIONS * WIDTH] = AVERAGE(a, i);
      if (SUM == 2) v[(2 * BLOCKS + 1) * ACTIONS * WIDTH] = EARLIER(a, i);
      if (TRACE) v[(2 * BLOCKS + 2) * ACTIONS * WIDTH] = s.e[a][i];
    }
    if (threadIdx.x == 0) {
      double v[SCALARS] = {r.gx, r.gy, r.reach, r.start, r.weight, r.mass, r.size, r.rows, r.sx, r.sy, r.earlier, r.t, r.scale};
      EACH(j, SCALARS) scalars[(size_t)run * SCALARS + j] = v[j];
    }
  }
}
