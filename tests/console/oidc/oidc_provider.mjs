// A real OpenID Connect provider (npm oidc-provider) in which everybody who comes is the person of PERSON.
// node oidc_provider.mjs REDIRECT_URI…; prints its port. Consent and login need no click.
import http from 'node:http';
import { Provider } from 'oidc-provider';

const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let person = { accountId: 'ann', roles: ['viewer'] };
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'console', client_secret: 'secret-of-the-console', redirect_uris: process.argv.slice(2),
      grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    }],
    claims: { openid: ['sub', 'roles'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, roles: person.roles }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: async () => true,
    features: {
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:kafka',
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'openid', audience: 'kafka', accessTokenTTL: 300, accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    ttl: { AccessToken: 300, Session: 300, Grant: 300, Interaction: 300, IdToken: 300, RefreshToken: 300 },
  });
  const callback = provider.callback();
  server.on('request', async (request, response) => {
    const url = new URL(request.url, issuer);
    if (url.pathname === '/become') {
      person = { accountId: url.searchParams.get('who'), roles: url.searchParams.getAll('role') };
      response.end('ok');
    } else if (url.pathname.startsWith('/interaction/')) {
      const { params } = await provider.interactionDetails(request, response);
      const grant = new provider.Grant({ accountId: person.accountId, clientId: params.client_id });
      grant.addOIDCScope(params.scope);
      grant.addResourceScope('urn:kafka', 'openid');
      const result = { login: { accountId: person.accountId }, consent: { grantId: await grant.save() } };
      await provider.interactionFinished(request, response, result);
    } else {
      callback(request, response);
    }
  });
  console.log(`port ${server.address().port}`);
});
