// RO-TD alone, written by hand for the comparison with the generic table: eta = eta, lambda = 0, l2 ball, l1 penalty, average.
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rotd(const float *phi, const float *phi_next, const float *reward, const float *discount,
    const float *ratio, const float *alphas, const float *etas, const float *rho_theta, const float *rho_w, int n, float *found) {
  __shared__ float room[2][THREADS / 32][8];
  const int run = blockIdx.x, me = threadIdx.x, lane = me & 31, warp = me >> 5, width = THREADS * PER;
  const float a = alphas[run], eta = etas[run], bt = a * rho_theta[run], bw = a * rho_w[run];
  float w[PER], th[PER], y1[PER], y2[PER], sum[PER], f[PER], g[PER], nf[PER], ng[PER], v[8];
  EACH(i, PER) w[i] = th[i] = y1[i] = y2[i] = sum[i] = 0, f[i] = phi[me + i * THREADS], g[i] = phi_next[me + i * THREADS];
  EACH(q, 8) v[q] = 0;
  for (int t = 0; t < n; ++t) {
    const int s = t + 1 < n ? t + 1 : t;
    EACH(i, PER) nf[i] = phi[(size_t)s * width + me + i * THREADS], ng[i] = phi_next[(size_t)s * width + me + i * THREADS];
    const float c = discount[t], ra = ratio[t], sy = v[6] > 1 ? rsqrtf(v[6]) : 1.f;
    const float wf = v[0], delta = reward[t] - v[1] + c * v[2], y1f = sy * v[3], y2f = sy * v[4], y2g = sy * c * v[5];
    const float r1 = a * eta, k1f = r1 * (wf - ra * delta), k2f = -a * ra * delta, k2g = a * c * ra * wf;
    const float kwf = a * (eta * y1f + ra * y2g), kt = a * ra * (eta * y1f + y2f);
    EACH(q, 8) v[q] = 0;
    EACH(i, PER) {
      sum[i] += a * th[i];
      float x = w[i] - kwf * f[i];
      w[i] = x - fminf(fmaxf(x, -bw), bw);
      x = th[i] - kt * (f[i] - c * g[i]);
      th[i] = x - fminf(fmaxf(x, -bt), bt);
      y1[i] = sy * y1[i] + k1f * f[i];
      y2[i] = sy * y2[i] + k2f * f[i] + k2g * g[i];
      v[0] += w[i] * nf[i], v[1] += th[i] * nf[i], v[2] += th[i] * ng[i], v[3] += y1[i] * nf[i], v[4] += y2[i] * nf[i], v[5] += y2[i] * ng[i];
      v[6] += y1[i] * y1[i] + y2[i] * y2[i], f[i] = nf[i], g[i] = ng[i];
    }
    int offset = 16;
#pragma unroll
    for (int half = 4; half >= 1; half /= 2, offset /= 2) {
      bool up = lane & offset;
      EACH(i, half) {
        float send = up ? v[i] : v[i + half], keep = up ? v[i + half] : v[i];
        v[i] = keep + __shfl_xor_sync(~0u, send, offset);
      }
    }
    v[0] += __shfl_xor_sync(~0u, v[0], 2);
    v[0] += __shfl_xor_sync(~0u, v[0], 1);
    if (lane % 4 == 0) room[t & 1][warp][lane / 4] = v[0];
    __syncthreads();
    EACH(q, 8) v[q] = room[t & 1][0][q];
    EACH(k, THREADS / 32 - 1) EACH(q, 8) v[q] += room[t & 1][k + 1][q];
  }
  EACH(i, PER) found[(size_t)run * width + me + i * THREADS] = (sum[i] + a * th[i]) / (a * (n + 1));
}
