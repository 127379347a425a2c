// Greedy GQ(lambda) and RO-GQ(lambda) on the triple-link pendulum: one thread block for each run, from the first episode to
// the one that lasts. Simulation and scalars in double precision, weights in single; the steps are those of
// control/learners.py. The host defines THREADS, PER, ORDER (at most 2),
// FEATURES = (ORDER + 1)^8 and RO.

#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)
#define WARPS ((THREADS + 31) / 32)
#define WIDTH (THREADS * PER)
#define VECTORS (RO ? 6 : 3)
#if THREADS > 1
#define SYNC __syncthreads()
#else
#define SYNC
#endif
enum { THETA, W, TRACE, MEAN, Y1, Y2 };
enum { NEXT = 0, HERE = 3, WE, WF, Y1E, Y2E, Y1F, Y2NEXT, MEANNEXT = 12, PRODUCTS = 15 };

struct Numbers {
  double map[64], gamma, lam, alpha, konidaris, eta, epsilon, decay, rho_theta, rho_w, forgetting, seed;
};

// A number in [0, 1) for every step of every run (splitmix64).
__device__ double uniform(unsigned long long seed, unsigned long long count) {
  unsigned long long z = (seed * 0x100000001b3ull + count + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull, z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

__device__ void total(float *v, int n, float *room) {
#if THREADS > 1
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  EACH(q, n) for (int offset = 16; offset; offset /= 2) v[q] += __shfl_xor_sync(0xffffffffu, v[q], offset);
  __syncthreads();
  if (lane == 0) EACH(q, n) room[warp * PRODUCTS + q] = v[q];
  __syncthreads();
  EACH(q, n) v[q] = 0;
  EACH(w, WARPS) EACH(q, n) v[q] += room[w * PRODUCTS + q];
#endif
}

// (velocities, accelerations): the equations of triple_link_plant.py.
__device__ void derivative(const double *s, double force, const double *k, double *out) {
  double t1 = s[1], t2 = s[2], t3 = s[3], v0 = s[4], v1 = s[5], v2 = s[6], v3 = s[7];
  double s12 = sin(t1 - t2), s13 = sin(t1 - t3), s23 = sin(t2 - t3), n1 = sin(t1), n2 = sin(t2), n3 = sin(t3);
  double F10 = k[2] * cos(t1), F20 = k[3] * cos(t2), F30 = k[4] * cos(t3);
  double F21 = k[8] * cos(t1 - t2), F31 = k[9] * cos(t1 - t3), F32 = k[10] * cos(t2 - t3);
  double r0 = force - k[11] * v0 + k[2] * n1 * v1 * v1 + k[3] * n2 * v2 * v2 + k[4] * n3 * v3 * v3;
  double r1 = k[0] * k[2] * n1 - (k[12] + k[13]) * v1 + k[13] * v2 - k[8] * s12 * v2 * v2 - k[9] * s13 * v3 * v3;
  double r2 = k[0] * k[3] * n2 + k[13] * v1 - (k[13] + k[14]) * v2 + k[14] * v3 + k[8] * s12 * v1 * v1 - k[10] * s23 * v3 * v3;
  double r3 = k[0] * k[4] * n3 + k[14] * v2 - k[14] * v3 + k[9] * s13 * v1 * v1 + k[10] * s23 * v2 * v2;
  double a1 = F10 / k[1], a2 = F20 / k[1], a3 = F30 / k[1], d1 = k[5] - a1 * F10;
  double b2 = (F21 - a2 * F10) / d1, b3 = (F31 - a3 * F10) / d1, d2 = k[6] - a2 * F20 - b2 * b2 * d1;
  double c3 = (F32 - a3 * F20 - b3 * b2 * d1) / d2, d3 = k[7] - a3 * F30 - b3 * b3 * d1 - c3 * c3 * d2;
  r1 -= a1 * r0, r2 -= a2 * r0 + b2 * r1, r3 -= a3 * r0 + b3 * r1 + c3 * r2;
  double x3 = r3 / d3, x2 = r2 / d2 - c3 * x3, x1 = r1 / d1 - b2 * x2 - b3 * x3;
  out[0] = v0, out[1] = v1, out[2] = v2, out[3] = v3;
  out[4] = r0 / k[1] - a1 * x1 - a2 * x2 - a3 * x3, out[5] = x1, out[6] = x2, out[7] = x3;
}

__device__ void rk4(double *s, double force, const double *k, double h) {
  double total[8], slope[8], at[8], share[4] = {1, 2, 2, 1}, reach[4] = {0, 0.5, 0.5, 1};
  EACH(j, 8) total[j] = slope[j] = 0;
  EACH(n, 4) {
    EACH(j, 8) at[j] = s[j] + reach[n] * h * slope[j];
    derivative(at, force, k, slope);
    EACH(j, 8) total[j] += share[n] * slope[j];
  }
  EACH(j, 8) s[j] += h / 6 * total[j];
}

__device__ float soft(float v, float bound) { return v - fminf(fmaxf(v, -bound), bound); }

// Greedy probabilities, ties shared equally.
__device__ void greedy(const double *q, double *share) {
  double top = fmax(q[0], fmax(q[1], q[2])), n = 0;
  EACH(a, 3) n += share[a] = q[a] == top;
  EACH(a, 3) share[a] /= n;
}

extern "C" __global__ void __launch_bounds__(THREADS) triple_link(const Numbers *all, const double *constants, double dt, double track, double angle,
                                       int n_x, int max_episodes, int max_total, float *memory, int *result) {
  const int run = blockIdx.x, tid = threadIdx.x;
  const Numbers &p = all[run];
  __shared__ float waves[2][81], norms[81], room[WARPS * PRODUCTS];
  float *x = memory + (size_t)run * VECTORS * 3 * WIDTH + tid, f[PER], g[PER], step[PER];
  const double pushes[3] = {0.0, 5.0, -5.0};
  int half = 1;
  EACH(j, 4) half *= ORDER + 1;
  for (int c = tid; c < half; c += THREADS) {
    norms[c] = 0;
    for (int rest = c; rest; rest /= ORDER + 1) norms[c] += (float)((rest % (ORDER + 1)) * (rest % (ORDER + 1)));
  }
  SYNC;
  EACH(i, PER) {
    int at = i * THREADS + tid;
    float size = at < FEATURES ? sqrtf(norms[at / half] + norms[at % half]) : 1.0f;
    step[i] = (float)p.alpha / (p.konidaris > 0 ? fmaxf(size, 1.0f) : 1.0f);
  }
#define AT(v, a, i) x[((v) * 3 + (a)) * WIDTH + (i) * THREADS]
#define FEATURES_OF(s, row)                                                                                    \
  {                                                                                                            \
    SYNC;                                                                                                      \
    for (int c = tid; c < 2 * half; c += THREADS) {                                                            \
      int first = c < half ? 0 : 4, rest = c % half;                                                           \
      double sum = 0;                                                                                          \
      for (int j = 3; j >= 0; --j, rest /= ORDER + 1) {                                                        \
        double u = 0;                                                                                          \
        EACH(m, 8) u += p.map[(first + j) * 8 + m] * s[m];                                                     \
        sum += (rest % (ORDER + 1)) * fmin(fmax(0.5 + 0.5 * u, 0.0), 1.0);                                     \
      }                                                                                                        \
      waves[c >= half][c % half] = (float)sum;                                                                 \
    }                                                                                                          \
    SYNC;                                                                                                      \
    EACH(i, PER) {                                                                                             \
      int at = i * THREADS + tid;                                                                              \
      row[i] = at < FEATURES ? cospif(waves[0][at / half] + waves[1][at % half]) : 0.0f;                       \
    }                                                                                                          \
  }
  EACH(v, VECTORS) EACH(a, 3) EACH(i, PER) AT(v, a, i) = 0;
  const bool blend = RO && p.forgetting > 0;
  const int acting = blend ? MEAN : THETA;
  int episodes = 0, longest = 0, taken = 0;
  bool solved = false, fine = true;
  float ys = 1, v[PRODUCTS];
  double epsilon = p.epsilon;
  for (; episodes < max_episodes && !solved && fine && taken < max_total; ++episodes, epsilon *= p.decay) {
    double s[8] = {0, 0, 0, 0, 0, 0, 0, 0}, q[3], into = 0;
    FEATURES_OF(s, f)
    EACH(a, 3) v[a] = 0;
    EACH(a, 3) EACH(i, PER) v[a] += AT(acting, a, i) * f[i];
    total(v, 3, room);
    EACH(a, 3) q[a] = v[a];
    int t = 0;
    for (bool down = false; t < n_x && !down && fine;) {
      double share[3], mu[3], ahead[3], u = uniform((unsigned long long)p.seed, taken + t), sum = 0;
      greedy(q, share);
      EACH(a, 3) mu[a] = t == 0 ? (a ? 0.5 : 0.0) : (1 - epsilon) * share[a] + epsilon / 3;
      int action = 0;
      bool drawn = false;
      EACH(a, 3) if (mu[a] > 0 && !drawn) sum += mu[a], action = a, drawn = u < sum;
      float keep = (float)(p.lam * into * share[action] / mu[action]);
      rk4(s, pushes[action], constants, dt);
      ++t, down = fabs(s[0]) > track || fmax(fabs(s[1]), fmax(fabs(s[2]), fabs(s[3]))) > angle;
      FEATURES_OF(s, g)
      EACH(j, PRODUCTS) v[j] = 0;
      EACH(a, 3) EACH(i, PER) {
        float here = a == action ? f[i] : 0.0f, e = keep * AT(TRACE, a, i) + here, theta = AT(THETA, a, i), w = AT(W, a, i);
        AT(TRACE, a, i) = e;
        v[NEXT + a] += theta * g[i], v[HERE] += theta * here, v[WE] += w * e, v[WF] += w * here;
        if (RO) {
          float y1 = ys * AT(Y1, a, i), y2 = ys * AT(Y2, a, i);
          v[Y1E] += y1 * e, v[Y2E] += y2 * e, v[Y1F] += y1 * here, v[Y2NEXT + a] += y2 * g[i];
          if (blend) v[MEANNEXT + a] += AT(MEAN, a, i) * g[i];
        }
      }
      total(v, PRODUCTS, room);
      EACH(a, 3) q[a] = v[(blend ? MEANNEXT : NEXT) + a];
      greedy(q, share);
      double delta = (down ? -1.0 : 0.0) - v[HERE], y_psi = 0;
      EACH(a, 3) ahead[a] = down ? 0.0 : p.gamma * share[a], delta += ahead[a] * v[NEXT + a], y_psi += (1 - p.lam) * ahead[a] * v[Y2NEXT + a];
      float d = (float)delta, eta = (float)p.eta, we = (float)((1 - p.lam) * v[WE]), wf = v[WF], ye = eta * v[Y1E] + v[Y2E];
      float yf = eta * v[Y1F], yp = (float)y_psi;
      EACH(j, 4) v[j] = 0;
      EACH(a, 3) EACH(i, PER) {
        float here = a == action ? f[i] : 0.0f, next = (float)ahead[a] * g[i], e = AT(TRACE, a, i), al = step[i];
        if (RO) {
          float y1 = ys * AT(Y1, a, i) + al * (eta * wf * here - eta * d * e), y2 = ys * AT(Y2, a, i) + al * (we * next - d * e);
          float theta = soft(AT(THETA, a, i) - al * ye * (here - next), al * (float)p.rho_theta);
          AT(Y1, a, i) = y1, AT(Y2, a, i) = y2, AT(THETA, a, i) = theta;
          AT(W, a, i) = soft(AT(W, a, i) - al * (yf * here + yp * e), al * (float)p.rho_w);
          v[3] += y1 * y1 + y2 * y2;
          if (blend) AT(MEAN, a, i) += (float)p.forgetting * (theta - AT(MEAN, a, i));
        } else {
          AT(THETA, a, i) += al * (d * e - we * next);
          AT(W, a, i) += eta * al * (d * e - wf * here);
        }
        v[a] += AT(acting, a, i) * g[i];
      }
      total(v, 4, room);
      EACH(a, 3) q[a] = v[a];
      ys = v[3] > 1 ? 1 / sqrtf(v[3]) : 1.0f;
      fine = isfinite(delta) && isfinite(q[0] + q[1] + q[2]);
      EACH(i, PER) f[i] = g[i];
      into = p.gamma;
    }
    taken += t, longest = t > longest ? t : longest, solved = fine && t >= n_x;
  }
  if (tid == 0) result[3 * run] = solved, result[3 * run + 1] = solved ? episodes : max_episodes, result[3 * run + 2] = longest;
}
