// A real OpenID Connect provider (npm oidc-provider): one client, which gets signed tokens for the audience kafka.
// node oidc_provider.mjs CERTIFICATE_AND_KEY.pem; prints the ports of http and https.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { Provider } from 'oidc-provider';

const resource = 'urn:kafka';
const provider = new Provider('https://issuer.example', {
  clients: [{
    client_id: 'ada', client_secret: 'secret-of-ada', redirect_uris: [], response_types: [],
    grant_types: ['client_credentials'], token_endpoint_auth_method: 'client_secret_basic',
  }],
  scopes: ['kafka'],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'kafka', audience: 'kafka', accessTokenTTL: 300, accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  ttl: { ClientCredentials: 300 },
  extraTokenClaims: () => ({ user: 'ada' }),
});
const pem = readFileSync(process.argv[2]);
const plain = http.createServer(provider.callback());
const secure = https.createServer({ key: pem, cert: pem }, provider.callback());
plain.listen(0, '127.0.0.1', () => secure.listen(0, '127.0.0.1', () => {
  console.log(`${plain.address().port} ${secure.address().port}`);
}));
